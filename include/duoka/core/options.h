// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace duoka {

/// Where a value was written, for messages: "config.yaml:12" or "command line".
struct Origin {
  std::string text;
};

/// A value as the user wrote it: one text, or a list of texts. An unset optional is written `null`.
struct OptionValue {
  std::vector<std::string> items;
  bool is_list = false;
  bool is_null = false;
};

/// Parsers of single values. Each throws ConfigError "<what was found>; wanted <type>" without origin.
namespace option_parse {
bool boolean(std::string_view text);     ///< true/false, yes/no, on/off in any case.
int64_t integer(std::string_view text);  ///< Decimal; 1_000 and 010 are not special: 010 is ten.
double number(std::string_view text);    ///< 1e-4, 0.1, 3; not nan, not inf.
}  // namespace option_parse

/// One option: what parsing, checking, help, schema, docs page and start-up print are made from.
/// `Target` is the plain struct that holds the values.
template <class Target>
struct Option {
  std::string name;
  std::string group;
  std::string type;  ///< As users read it: "int", "number", "bool", "text", "list", "choice".
  std::string help;
  std::vector<std::string> choices;
  std::string range;  ///< "> 0", "[0, 1)", or "".
  bool is_required = false;
  bool is_nullable = false;
  std::function<void(Target&, const OptionValue&)> set;  ///< Throws ConfigError without origin.
  std::function<std::string(const Target&)> get;         ///< The value as a user would write it.
};

/// The table of a struct's options, in the order users read them.
template <class Target>
class OptionTable {
 public:
  /// Following options belong to `title`.
  OptionTable& group(std::string title);
  /// Adds the option `name` held by `member`: bool, int64_t, double, std::string,
  /// std::vector<std::string>, or std::optional of the first four.
  template <class Value>
  OptionTable& add(std::string name, Value Target::*member, std::string help);

  // Refinements of the option added last.
  OptionTable& required();
  /// The text must be one of these.
  OptionTable& one_of(std::vector<std::string> choices);
  /// The number must lie in [low, high]; open ends by is_open.
  OptionTable& at_least(double low);
  OptionTable& above(double low);
  OptionTable& within_unit();  ///< In [0, 1).
  /// Replaces what setting it does.
  OptionTable& sets(std::function<void(Target&, const OptionValue&)> set);

  const std::vector<Option<Target>>& options() const { return options_; }
  std::vector<std::string> names() const;

  /// Sets one option. Throws ConfigError: "origin: unknown key 'lora_ranl'; nearest is 'lora_rank'", or
  /// "origin: key: found …; wanted …".
  void set(Target& target, std::string_view name, const OptionValue& value, const Origin& origin) const;
  /// Throws ConfigError naming the required options that `target` leaves empty.
  void check_required(const Target& target) const;

  /// Text for a terminal: groups, names, types, defaults, one or two lines each.
  std::string help(int columns = 100) const;
  /// A JSON schema (draft 2020-12) of a config file.
  std::string json_schema(std::string_view title) const;
  /// A page of tables for the documentation.
  std::string markdown() const;
  /// "name: value" lines, of those that differ from a default-made target when `only_changed`.
  std::string print(const Target& target, bool only_changed) const;

 private:
  Option<Target>& last() { return options_.back(); }
  OptionTable& check_number(std::string range, std::function<bool(double)> accepts);

  std::string group_;
  std::vector<Option<Target>> options_;
};

}  // namespace duoka

#include "duoka/core/options_impl.h"
