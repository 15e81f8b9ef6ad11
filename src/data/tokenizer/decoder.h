// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "duoka/io/json.h"

namespace duoka::data {

/// One change of a row of token texts on its way to bytes.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  /// `is_start`: tokens[0] begins the text, so a space that encoding put there goes.
  virtual void apply(std::vector<std::string>& tokens, bool is_start) const = 0;
};

/// The "decoder" of a tokenizer.json.
class Decoder {
 public:
  /// `json` null or a JSON null: tokens are joined with spaces. Throws FormatError for an unknown type.
  Decoder(const io::Json* json, const std::string& origin);

  /// Bytes of the text; not always UTF-8, when tokens cut characters.
  std::string decode(std::vector<std::string> tokens, bool is_start) const;

 private:
  std::vector<std::unique_ptr<const DecoderStep>> steps_;
};

}  // namespace duoka::data
