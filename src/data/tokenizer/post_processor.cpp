// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/post_processor.h"

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

std::vector<int32_t> special_ids(const io::Json& tokens, const std::string& name, int64_t vocab_size,
                                 const std::string& origin) {
  std::vector<int32_t> ids;
  for (const io::Json& id : io::require_array(io::require_object(tokens, name, origin), "ids", origin)) {
    const int64_t value = id.is_number_integer() ? id.get<int64_t>() : -1;
    if (value < 0 || value >= vocab_size) {
      throw FormatError(text(origin, ": the post-processor's token ", name, " has id ", id.dump(),
                             "; wanted 0 to ", vocab_size - 1));
    }
    ids.push_back(static_cast<int32_t>(value));
  }
  return ids;
}

Surround read_template(const io::Json& json, int64_t vocab_size, const std::string& origin) {
  Surround around;
  bool has_text = false;
  for (const io::Json& part : io::require_array(json, "single", origin)) {
    if (part.is_object() && part.contains("Sequence")) {
      if (has_text) throw FormatError(text(origin, ": the post-processor's template has its text twice"));
      has_text = true;
      continue;
    }
    const std::string name =
        io::require_string(io::require_object(part, "SpecialToken", origin), "id", origin);
    auto& side = has_text ? around.behind : around.before;
    for (const int32_t id :
         special_ids(io::require_object(json, "special_tokens", origin), name, vocab_size, origin)) {
      side.push_back(id);
    }
  }
  if (!has_text) throw FormatError(text(origin, ": the post-processor's template leaves the text out"));
  return around;
}

}  // namespace

Surround read_post_processor(const io::Json* json, int64_t vocab_size, const std::string& origin) {
  if (json == nullptr || json->is_null()) return {};
  const std::string type = io::require_string(*json, "type", origin);
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return read_template(*json, vocab_size, origin);
  if (type == "Sequence") {
    Surround around;
    for (const io::Json& part : io::require_array(*json, "processors", origin)) {
      const Surround outer = read_post_processor(&part, vocab_size, origin);
      around.before.insert(around.before.begin(), outer.before.begin(), outer.before.end());
      around.behind.insert(around.behind.end(), outer.behind.begin(), outer.behind.end());
    }
    return around;
  }
  throw FormatError(text(origin, ": post-processor ", type,
                         " is not supported; supported are TemplateProcessing, ByteLevel and Sequence"));
}

}  // namespace duoka::data
