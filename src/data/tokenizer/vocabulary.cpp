// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/vocabulary.h"

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {

void Vocabulary::add(std::string token, int64_t id, size_t num_entries, const std::string& origin) {
  // Real vocabularies have a few holes at most: a wild id must not size the table.
  const int64_t limit = static_cast<int64_t>(num_entries) * 4 + 65536;
  if (id < 0 || id >= limit) {
    throw FormatError(duoka::text(origin, ": token \"", token, "\" has id ", id, " in a vocabulary of ",
                                  num_entries, " entries; wanted 0 to ", limit - 1));
  }
  const auto place = static_cast<size_t>(id);
  if (place >= texts_.size()) {
    texts_.resize(place + 1);
    is_used_.resize(place + 1);
  }
  const auto [entry, is_new] = ids_.emplace(token, static_cast<int32_t>(id));
  if (!is_new && entry->second != id) {
    throw FormatError(
        duoka::text(origin, ": token \"", token, "\" has two ids, ", entry->second, " and ", id));
  }
  if (is_used_[place] && texts_[place] != token) {
    throw FormatError(duoka::text(origin, ": id ", id, " belongs to two tokens, \"", texts_[place],
                                  "\" and \"", token, "\""));
  }
  texts_[place] = std::move(token);
  is_used_[place] = true;
}

}  // namespace duoka::data
