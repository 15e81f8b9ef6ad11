// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "duoka/core/options.h"

namespace duoka::cli {

/// Words of a command line after the command: an optional config file, then key=value words.
struct OptionWords {
  std::optional<std::filesystem::path> config;
  std::vector<std::string> overrides;  ///< "key=value", each.

  /// Splits `words`: a first word without '=' is the config. Throws ConfigError for a later one.
  static OptionWords parse(const std::vector<std::string>& words);
};

namespace detail {
/// What reading needs to know of a table, free of its target's type.
struct OptionSink {
  std::function<void(const std::string& key, const OptionValue&, const Origin&)> set;
  std::function<std::string(std::string_view key)> type;  ///< Option::type; "" when there is no such key.
};
void read_options(const OptionWords& words, const OptionSink& sink);
}  // namespace detail

/// Sets `target` from the config file (YAML), then from the key=value words, which win. The value of a word
/// is YAML too, but for texts, which are taken as they stand: prompt='a: b # c'. Lists may be written as
/// lists or as one text with commas; a section `a: {b: 1}` is the key `a.b`. Throws ConfigError with file and
/// line. Checks required options.
template <class Target>
Target read_options(const OptionWords& words, const OptionTable<Target>& table) {
  Target target;
  detail::OptionSink sink;
  sink.set = [&](const std::string& key, const OptionValue& value, const Origin& origin) {
    table.set(target, key, value, origin);
  };
  sink.type = [&](std::string_view key) {
    const auto& options = table.options();
    const auto found =
        std::find_if(options.begin(), options.end(), [&](const auto& option) { return option.name == key; });
    return found == options.end() ? std::string() : found->type;
  };
  detail::read_options(words, sink);
  table.check_required(target);
  return target;
}

}  // namespace duoka::cli
