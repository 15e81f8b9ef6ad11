// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/bpe_read.h"

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

int32_t require_token(const Vocabulary& vocabulary, std::string_view token, size_t merge,
                      const std::string& origin) {
  const auto id = vocabulary.find(token);
  if (!id) {
    throw FormatError(
        text(origin, ": merge ", merge, " speaks of \"", token, "\", which the vocabulary does not have"));
  }
  return *id;
}

/// A merge is "a b" or ["a", "b"].
std::pair<std::string_view, std::string_view> merge_sides(const io::Json& json, size_t merge,
                                                          const std::string& origin) {
  if (json.is_string()) {
    const std::string_view both = json.get_ref<const std::string&>();
    const size_t space = both.find(' ');
    if (space != std::string_view::npos && both.find(' ', space + 1) == std::string_view::npos) {
      return {both.substr(0, space), both.substr(space + 1)};
    }
  } else if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) {
    return {json[0].get_ref<const std::string&>(), json[1].get_ref<const std::string&>()};
  }
  throw FormatError(
      text(origin, ": merge ", merge, " is ", json.dump(), "; wanted \"a b\" or [\"a\", \"b\"]"));
}

MergeTable read_merges(const io::Json& list, const Vocabulary& vocabulary, const std::string& origin) {
  MergeTable merges(list.size());
  std::string joined;
  uint32_t rank = 0;
  for (const io::Json& entry : list) {
    const auto [left, right] = merge_sides(entry, rank, origin);
    joined.assign(left).append(right);
    const int32_t left_id = require_token(vocabulary, left, rank, origin);
    const int32_t right_id = require_token(vocabulary, right, rank, origin);
    merges.add(left_id, right_id, rank, require_token(vocabulary, joined, rank, origin));
    ++rank;
  }
  return merges;
}

void refuse_unsupported(const io::Json& model, const std::string& origin) {
  // Files older than the field "type" are BPE when they have merges.
  const std::string type =
      io::optional_string(model, "type", origin).value_or(model.contains("merges") ? "BPE" : "unnamed");
  if (type != "BPE") {
    throw FormatError(text(origin, ": model ", type, " is not supported; duoka reads BPE tokenizers"));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string value = io::optional_string(model, key, origin).value_or("");
    if (!value.empty())
      throw FormatError(text(origin, ": ", key, " \"", value, "\" is not supported; wanted none"));
  }
  if (io::optional_number(model, "dropout", origin).value_or(0) != 0) {
    throw FormatError(text(origin, ": BPE dropout is not supported; set \"dropout\" to null"));
  }
}

}  // namespace

BpeModel read_bpe(const io::Json& model, bool is_byte_level, Vocabulary& vocabulary,
                  const std::string& origin) {
  refuse_unsupported(model, origin);
  const io::Json& tokens = io::require_object(model, "vocab", origin);
  vocabulary.reserve(tokens.size());
  for (const auto& [token, id] : tokens.items()) {
    if (!id.is_number_integer()) {
      throw FormatError(
          text(origin, ": the id of token \"", token, "\" is ", id.dump(), "; wanted a whole number"));
    }
    vocabulary.add(token, id.get<int64_t>(), tokens.size(), origin);
  }
  BpeModel read;
  read.is_byte_level = is_byte_level;
  read.has_byte_fallback = io::optional_bool(model, "byte_fallback", origin).value_or(false);
  read.fuses_unknown = io::optional_bool(model, "fuse_unk", origin).value_or(false);
  read.ignores_merges = io::optional_bool(model, "ignore_merges", origin).value_or(false);
  if (const auto unknown = io::optional_string(model, "unk_token", origin)) {
    read.unknown_id = vocabulary.find(*unknown);
    if (!read.unknown_id) {
      throw FormatError(text(origin, ": unk_token \"", *unknown, "\" is not in the vocabulary"));
    }
  }
  read.merges = read_merges(io::require_array(model, "merges", origin), vocabulary, origin);
  return read;
}

}  // namespace duoka::data
