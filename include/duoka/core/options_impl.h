// SPDX-License-Identifier: Apache-2.0
// Bodies of OptionTable's templates; included by options.h only. What does not depend on the target's
// type works on OptionText and is compiled once, in options.cpp.
#pragma once

#include <type_traits>
#include <utility>

#include "duoka/core/error.h"
#include "duoka/core/options.h"
#include "duoka/core/text.h"

namespace duoka {

namespace detail {

/// An option without its target: what the printed forms need.
struct OptionText {
  std::string name, group, type, help, default_value, range;
  std::vector<std::string> choices;
  bool is_required, is_nullable;
};
std::string options_help(const std::vector<OptionText>& options, int columns);
std::string options_schema(const std::vector<OptionText>& options, std::string_view title);
std::string options_markdown(const std::vector<OptionText>& options);
/// What to say about a key that is none of `names`: what it could have been meant for.
std::string advice_for_unknown(std::string_view name, const std::vector<std::string>& names);
std::string number_text(double value);  ///< Shortest text that reads back as the same number.

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

inline const std::string& single(const OptionValue& value) {
  if (value.is_list || value.items.size() != 1)
    throw ConfigError(text("found a list of ", counted(static_cast<int64_t>(value.items.size()), "value"),
                           "; wanted a single one"));
  return value.items.front();
}

template <class T>
T parse_option(const OptionValue& value) {
  if constexpr (IsOptional<T>::value) {
    if (value.is_null) return std::nullopt;
    return parse_option<typename T::value_type>(value);
  } else {
    if (value.is_null && !std::is_same_v<T, std::vector<std::string>>)
      throw ConfigError("found null; wanted a value");
    if constexpr (std::is_same_v<T, bool>)
      return option_parse::boolean(single(value));
    else if constexpr (std::is_same_v<T, int64_t>)
      return option_parse::integer(single(value));
    else if constexpr (std::is_same_v<T, double>)
      return option_parse::number(single(value));
    else if constexpr (std::is_same_v<T, std::string>)
      return single(value);
    else {
      static_assert(std::is_same_v<T, std::vector<std::string>>);
      return value.items;
    }
  }
}

template <class T>
std::string option_text(const T& value) {
  if constexpr (IsOptional<T>::value)
    return value ? option_text(*value) : "null";
  else if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_same_v<T, int64_t>)
    return std::to_string(value);
  else if constexpr (std::is_same_v<T, double>)
    return number_text(value);
  else if constexpr (std::is_same_v<T, std::string>)
    return value;
  else
    return join(value, ",");
}

template <class T>
constexpr const char* option_type() {
  if constexpr (IsOptional<T>::value)
    return option_type<typename T::value_type>();
  else if constexpr (std::is_same_v<T, bool>)
    return "bool";
  else if constexpr (std::is_same_v<T, int64_t>)
    return "int";
  else if constexpr (std::is_same_v<T, double>)
    return "number";
  else if constexpr (std::is_same_v<T, std::string>)
    return "text";
  else
    return "list";
}

template <class Target>
std::vector<OptionText> texts(const std::vector<Option<Target>>& options) {
  const Target defaults{};
  std::vector<OptionText> all;
  all.reserve(options.size());
  for (const auto& o : options)
    all.push_back(
        {o.name, o.group, o.type, o.help, o.get(defaults), o.range, o.choices, o.is_required, o.is_nullable});
  return all;
}

}  // namespace detail

template <class Target>
OptionTable<Target>& OptionTable<Target>::group(std::string title) {
  group_ = std::move(title);
  return *this;
}

template <class Target>
template <class Value>
OptionTable<Target>& OptionTable<Target>::add(std::string name, Value Target::*member, std::string help) {
  Option<Target> option;
  option.name = std::move(name);
  option.group = group_;
  option.type = detail::option_type<Value>();
  option.help = std::move(help);
  option.is_nullable = detail::IsOptional<Value>::value;
  option.set = [member](Target& t, const OptionValue& v) { t.*member = detail::parse_option<Value>(v); };
  option.get = [member](const Target& t) { return detail::option_text(t.*member); };
  options_.push_back(std::move(option));
  return *this;
}

template <class Target>
OptionTable<Target>& OptionTable<Target>::required() {
  last().is_required = true;
  return *this;
}

template <class Target>
OptionTable<Target>& OptionTable<Target>::one_of(std::vector<std::string> choices) {
  Option<Target>& option = last();
  option.type = "choice";
  option.choices = choices;
  option.set = [inner = option.set, get = option.get, choices = std::move(choices)](Target& t,
                                                                                    const OptionValue& v) {
    Target trial = t;
    inner(trial, v);
    const std::string found = get(trial);
    for (const std::string& choice : choices)
      if (choice == found) {
        t = std::move(trial);
        return;
      }
    throw ConfigError(duoka::text("found '", found, "'; wanted one of ", join(choices)));
  };
  return *this;
}

template <class Target>
OptionTable<Target>& OptionTable<Target>::check_number(std::string range,
                                                       std::function<bool(double)> accepts) {
  Option<Target>& option = last();
  option.range = range;
  option.set = [inner = option.set, range = std::move(range), accepts = std::move(accepts)](
                   Target& t, const OptionValue& v) {
    Target trial = t;
    inner(trial, v);  // first the type, then the range
    if (!v.is_null && !accepts(option_parse::number(v.items.front())))
      throw ConfigError(duoka::text("found ", v.items.front(), "; wanted a number ", range));
    t = std::move(trial);
  };
  return *this;
}

template <class Target>
OptionTable<Target>& OptionTable<Target>::at_least(double low) {
  return check_number(">= " + detail::number_text(low), [low](double x) { return x >= low; });
}
template <class Target>
OptionTable<Target>& OptionTable<Target>::above(double low) {
  return check_number("> " + detail::number_text(low), [low](double x) { return x > low; });
}
template <class Target>
OptionTable<Target>& OptionTable<Target>::within_unit() {
  return check_number("in [0, 1)", [](double x) { return x >= 0 && x < 1; });
}

template <class Target>
OptionTable<Target>& OptionTable<Target>::sets(std::function<void(Target&, const OptionValue&)> set) {
  last().set = std::move(set);
  return *this;
}

template <class Target>
std::vector<std::string> OptionTable<Target>::names() const {
  std::vector<std::string> all;
  for (const auto& option : options_) all.push_back(option.name);
  return all;
}

template <class Target>
void OptionTable<Target>::set(Target& target, std::string_view name, const OptionValue& value,
                              const Origin& origin) const {
  for (const auto& option : options_) {
    if (option.name != name) continue;
    try {
      option.set(target, value);
    } catch (const ConfigError& error) {
      throw ConfigError(duoka::text(origin.text, ": ", name, ": ", error.what()));
    }
    return;
  }
  throw ConfigError(
      duoka::text(origin.text, ": unknown key '", name, "'; ", detail::advice_for_unknown(name, names())));
}

template <class Target>
void OptionTable<Target>::check_required(const Target& target) const {
  std::vector<std::string> missing;
  for (const auto& option : options_)
    if (option.is_required && option.get(target).empty()) missing.push_back(option.name);
  if (!missing.empty()) throw ConfigError("not given: " + join(missing));
}

template <class Target>
std::string OptionTable<Target>::help(int columns) const {
  return detail::options_help(detail::texts(options_), columns);
}
template <class Target>
std::string OptionTable<Target>::json_schema(std::string_view title) const {
  return detail::options_schema(detail::texts(options_), title);
}
template <class Target>
std::string OptionTable<Target>::markdown() const {
  return detail::options_markdown(detail::texts(options_));
}

template <class Target>
std::string OptionTable<Target>::print(const Target& target, bool only_changed) const {
  const Target defaults{};
  std::string lines;
  for (const auto& option : options_) {
    const std::string value = option.get(target);
    if (!only_changed || value != option.get(defaults)) lines += option.name + ": " + value + "\n";
  }
  return lines;
}

}  // namespace duoka
