// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/data_files.h"
#include "duoka/core/log.h"
#include "duoka/data/chat_template.h"
#include "duoka/data/dataset.h"
#include "duoka/data/row_encoder.h"
#include "duoka/data/tokenizer.h"

namespace duoka::data {

/// The tokenizer and template of tests/fixtures/cases/models/tiny-llama, and data sets read with them.
class TinyData {
 public:
  TinyData()
      : tokenizer_(Tokenizer::from_folder(fixture("cases/models/tiny-llama"))),
        template_(ChatTemplate::parse(tokenizer_.chat_template().value(), "tiny-llama")) {}

  static EncodeRules rules(int64_t cutoff_len = 2048, Stage stage = Stage::sft) {
    EncodeRules rules;
    rules.cutoff_len = cutoff_len;
    rules.stage = stage;
    return rules;
  }
  RowEncoder encoder(const EncodeRules& rules) const { return {tokenizer_, &template_, rules}; }

  /// Opens files of tests/fixtures or elsewhere, with a cache of its own.
  std::shared_ptr<const Dataset> open(const std::vector<std::string>& paths, const EncodeRules& rules,
                                      DatasetOptions options = {}) const {
    options.cache_folder = folder_.path().string();
    options.num_threads = 2;
    return std::make_shared<const Dataset>(
        Dataset::open(find_sources(paths, fixture("cases")), encoder(rules), options, Log(1, 2)));
  }

  const Tokenizer& tokenizer() const { return tokenizer_; }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  Tokenizer tokenizer_;
  ChatTemplate template_;
};

}  // namespace duoka::data
