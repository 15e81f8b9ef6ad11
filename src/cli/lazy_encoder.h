// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "duoka/cli/train_arguments.h"
#include "duoka/data/chat_template.h"
#include "duoka/data/row_encoder.h"
#include "duoka/data/tokenizer.h"

namespace duoka::cli {

/// How rows become tokens by the options of a training. Tokenizer and chat template are read when something
/// first asks for them: a start from the token cache does not. For one thread.
class LazyEncoder final {
 public:
  /// `arguments` outlive this object.
  explicit LazyEncoder(const TrainArguments& arguments) : arguments_(arguments) {}
  LazyEncoder(const LazyEncoder&) = delete;
  LazyEncoder& operator=(const LazyEncoder&) = delete;

  /// Throws as open_tokenizer(), open_template() and RowEncoder do.
  const data::Tokenizer& tokenizer();
  const data::RowEncoder& encoder();
  /// For Dataset::open(); refers to this object.
  data::EncoderSource source();

 private:
  data::EncodeRules rules() const;

  const TrainArguments& arguments_;
  std::optional<data::Tokenizer> tokenizer_;
  std::optional<data::ChatTemplate> template_;
  std::optional<data::RowEncoder> encoder_;
};

}  // namespace duoka::cli
