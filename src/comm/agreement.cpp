// SPDX-License-Identifier: Apache-2.0
#include "duoka/comm/agreement.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "core/content_hash.h"
#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

/// Ends a key, and a value, where they travel as text; neither holds it.
constexpr char end_mark = '\0';

std::string to_wire(const Facts& facts) {
  std::string out;
  for (const auto& [key, value] : facts) out += key + end_mark + value + end_mark;
  return out;
}

Facts from_wire(const std::string& words) {
  Facts facts;
  for (size_t at = 0; at < words.size();) {
    const size_t middle = words.find(end_mark, at);
    const size_t end = words.find(end_mark, middle + 1);
    facts[words.substr(at, middle - at)] = words.substr(middle + 1, end - middle - 1);
    at = end + 1;
  }
  return facts;
}

bool is_same_on_all(const std::string& words, const Group& group) {
  ContentHash hash;
  hash.add(words.data(), words.size());
  const auto [low, high] = hash.value();
  const at::Tensor own = at::tensor({static_cast<int64_t>(low), static_cast<int64_t>(high)}, at::kLong);
  at::Tensor all = at::empty({group.size(), 2}, at::kLong);
  all_gather_into(all, own, group);
  return all.eq(own).all().item<bool>();
}

std::string shown(const std::optional<std::string>& value) {
  if (!value) return "not set";
  return value->empty() ? "''" : printable(*value, 200);
}

std::optional<std::string> value_of(const Facts& facts, const std::string& key) {
  const auto found = facts.find(key);
  return found == facts.end() ? std::nullopt : std::optional(found->second);
}

/// The message where ranks have different values of `key`: `values`, by rank. Of the value that most have
/// (rank 0's, of two that are as frequent) and the first rank with another one.
std::string difference(const std::string& key, const std::vector<std::optional<std::string>>& values) {
  const auto count = [&](const auto& value) { return std::ranges::count(values, value); };
  const auto usual = std::ranges::max_element(values, {}, count);
  const auto odd = std::ranges::find_if(values, [&](const auto& value) { return value != *usual; });
  const auto num_usual = count(*usual);
  const std::string others = num_usual == 1 ? text("rank ", usual - values.begin())
                                            : text(num_usual, " of the ", values.size(), " ranks");
  return text("the ranks were started with different things: ", key, " is ", shown(*odd), " on rank ",
              odd - values.begin(), " and ", shown(*usual), " on ", others,
              "; start every rank with the same program, options and files");
}

/// Throws for the first key with more than one value.
[[noreturn]] void refuse(const std::vector<Facts>& ranks) {
  std::set<std::string> keys;
  for (const Facts& facts : ranks)
    for (const auto& [key, value] : facts) keys.insert(key);
  for (const std::string& key : keys) {
    std::vector<std::optional<std::string>> values;
    for (const Facts& facts : ranks) values.push_back(value_of(facts, key));
    const auto differs = [&](const auto& value) { return value != values.front(); };
    if (std::ranges::any_of(values, differs)) throw ConfigError(difference(key, values));
  }
  throw StateError("require_same: hashes differ, but facts do not");
}

}  // namespace

void require_same(const Facts& facts, const Group& group) {
  if (group.size() == 1) return;
  const std::string own = to_wire(facts);
  if (is_same_on_all(own, group)) return;
  std::vector<Facts> ranks;
  for (const std::string& words : all_gather_text(own, group)) ranks.push_back(from_wire(words));
  refuse(ranks);
}

}  // namespace duoka::comm
