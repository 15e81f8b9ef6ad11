// SPDX-License-Identifier: Apache-2.0
#include "comm/environment.h"

#include <charconv>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

std::optional<int> parse(std::string_view word) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::string> Environment::word(const std::string& name) const {
  auto value = lookup_(name);
  if (value && value->empty()) return std::nullopt;
  return value;
}

std::optional<int> Environment::number(const std::string& name) const {
  const auto value = word(name);
  if (!value) return std::nullopt;
  const auto number = parse(*value);
  if (!number)
    throw ConfigError(
        text("environment variable ", name, " = '", *value, "' is not a whole number from 0 up"));
  return number;
}

int Environment::needed_number(const std::string& name, const std::string& because) const {
  const auto value = number(name);
  if (!value) throw ConfigError(text(because, " but ", name, " is not; set both, or neither"));
  return *value;
}

std::string first_slurm_host(const std::string& list) {
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    // Of "[07-12,40]" the first entry's first number, written as it stands.
    const size_t close = list.find(']', i);
    if (close == std::string::npos) throw ConfigError(text("host list '", list, "' has no ] for its ["));
    host += list.substr(i + 1, list.find_first_of("-,]", i) - i - 1);
    i = close;
  }
  if (host.empty()) throw ConfigError(text("host list '", list, "' names no host"));
  return host;
}

std::optional<int> slurm_count_at(const std::string& counts, int node) {
  size_t begin = 0;
  while (begin < counts.size()) {
    const size_t end = std::min(counts.find(',', begin), counts.size());
    const std::string_view entry(counts.data() + begin, end - begin);
    const size_t open = entry.find("(x");
    const auto count = parse(entry.substr(0, open));
    const auto times = open == std::string_view::npos
                           ? std::optional(1)
                           : parse(entry.substr(open + 2, entry.size() - open - 3));
    if (!count || !times) return std::nullopt;
    if (node < *times) return count;
    node -= *times;
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace duoka::comm
