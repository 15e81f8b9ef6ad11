// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/aligned_text.h"
#include "data/tokenizer/regex.h"
#include "duoka/io/json.h"

namespace duoka::data {

/// One change of a text before it is cut: composition, case, replaced characters.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text, MatchState& state) const = 0;
};

/// Reads the "normalizer" of a tokenizer.json; null for a JSON null. Throws FormatError for an unknown type.
std::unique_ptr<const Normalizer> make_normalizer(const io::Json* json, const std::string& origin);

/// Unicode's normal form ("NFC", "NFD", "NFKC", "NFKD").
std::unique_ptr<const Normalizer> make_unicode_form(std::string_view form);

}  // namespace duoka::data
