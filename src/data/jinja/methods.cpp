// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/methods.h"

#include <algorithm>
#include <utility>

#include "data/jinja/filters.h"
#include "data/jinja/format.h"
#include "data/jinja/operators.h"
#include "data/jinja/print.h"
#include "data/jinja/registry.h"
#include "data/jinja/strings.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

using Method = Value (*)(Session&, const Value& self, const Arguments&);
using NamedMethod = std::pair<std::string_view, Method>;

const Text& self_text(const Value& self) { return *text_of(self); }

const Text& string_argument(std::string_view what, const std::optional<Value>& value) {
  const Text* held = value ? text_of(*value) : nullptr;
  if (!held) throw Fault{text(what, " needs a string", value ? ", not " + type_name(*value) : "")};
  return *held;
}

template <Side side>
Value strip_method(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("strip", args, {"chars"});
  const bool has_chars = bound[0] && !bound[0]->is_none();
  if (!has_chars) return session.text(strip(self_text(self), side));
  const Text& chars = string_argument("strip", bound[0]);
  return chars.is_empty() ? self : session.text(strip(self_text(self), side, chars.view()));
}

template <Case wanted>
Value case_method(Session& session, const Value& self, const Arguments& args) {
  bind("change of case", args, {});
  return change_case(session, self_text(self), wanted);
}
Value title_method(Session& session, const Value& self, const Arguments& args) {
  bind("title", args, {});
  return title(session, self_text(self), false);
}
Value capitalize_method(Session& session, const Value& self, const Arguments& args) {
  bind("capitalize", args, {});
  return capitalize(session, self_text(self));
}

template <Values (*cut)(Session&, const Text&, const Text*, int64_t)>
Value split_method(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("split", args, {"sep", "maxsplit"});
  const bool has_separator = bound[0] && !bound[0]->is_none();
  const Text* separator = has_separator ? &string_argument("split", bound[0]) : nullptr;
  return make_list(
      cut(session, self_text(self), separator, bound[1] ? int_argument("split", *bound[1]) : -1));
}
Value splitlines(Session& session, const Value& self, const Arguments& args) {
  bind("splitlines", args, {});
  return make_list(split_lines(session, self_text(self)));
}

Value replace_method(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("replace", args, {"old", "new", "count"});
  const int64_t limit = bound[2] ? int_argument("replace", *bound[2]) : -1;
  return replace(session, self_text(self), string_argument("replace", bound[0]),
                 string_argument("replace", bound[1]), limit);
}

Value join_method(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("join", args, {"iterable"});
  const Values items = iterate(session, bound[0].value_or(Value(None{})));
  for (const Value& item : items) {
    if (!text_of(item)) throw Fault{text("join() needs strings, not ", type_name(item))};
  }
  return join(session, items, self_text(self));
}

template <bool is_start>
Value affix_method(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind(is_start ? "startswith" : "endswith", args, {"affix"});
  const std::string_view whole = self_text(self).view();
  const List* several = bound[0] ? bound[0]->as_list() : nullptr;
  const Values affixes = several ? several->items : Values{bound[0].value_or(Value(None{}))};
  return std::any_of(affixes.begin(), affixes.end(), [&](const Value& affix) {
    session.step();
    const std::string_view part = string_argument("startswith and endswith", affix).view();
    return is_start ? whole.starts_with(part) : whole.ends_with(part);
  });
}

template <bool is_last>
Value find_method(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("find", args, {"sub"});
  const std::string_view whole = self_text(self).view();
  const std::string_view part = string_argument("find", bound[0]).view();
  session.step(1 + static_cast<int64_t>(whole.size() >> 6));
  const size_t at = is_last ? whole.rfind(part) : whole.find(part);
  return at == std::string_view::npos ? int64_t{-1} : count_chars(whole.substr(0, at));
}

Value count_method(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("count", args, {"sub"});
  const Text& part = string_argument("count", bound[0]);
  if (part.is_empty()) return length(session, self) + 1;
  return static_cast<int64_t>(split(session, self_text(self), &part, -1).size()) - 1;
}

Value format_method(Session& session, const Value& self, const Arguments& args) {
  return format_braces(session, self_text(self), args);
}

template <bool is_prefix>
Value remove_affix(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("removeprefix and removesuffix", args, {"affix"});
  const Text& whole = self_text(self);
  const Text& part = string_argument("removeprefix and removesuffix", bound[0]);
  const bool is_there =
      is_prefix ? whole.view().starts_with(part.view()) : whole.view().ends_with(part.view());
  if (!is_there) return self;
  return session.text(is_prefix ? whole.slice(part.size(), whole.size())
                                : whole.slice(0, whole.size() - part.size()));
}

template <bool (*accepts)(uint32_t)>
Value all_chars(Session& session, const Value& self, const Arguments& args) {
  bind("the check", args, {});
  const std::string_view bytes = self_text(self).view();
  session.step(1 + static_cast<int64_t>(bytes.size() >> 6));
  for (size_t at = 0; at < bytes.size(); at += char_bytes(bytes, at)) {
    if (!accepts(char_at(bytes, at))) return false;
  }
  return !bytes.empty();
}
bool is_ascii_digit(uint32_t c) { return c >= '0' && c <= '9'; }

template <Case same, Case other>
Value has_case(Session& session, const Value& self, const Arguments& args) {
  bind("the check", args, {});
  const Text& held = self_text(self);
  return change_case(session, held, same).bytes() == held.bytes() &&
         change_case(session, held, other).bytes() != held.bytes();
}

constexpr NamedMethod text_methods[] = {{"strip", strip_method<Side::both>},
                                        {"lstrip", strip_method<Side::left>},
                                        {"rstrip", strip_method<Side::right>},
                                        {"upper", case_method<Case::upper>},
                                        {"lower", case_method<Case::lower>},
                                        {"title", title_method},
                                        {"capitalize", capitalize_method},
                                        {"split", split_method<split>},
                                        {"rsplit", split_method<split_right>},
                                        {"splitlines", splitlines},
                                        {"replace", replace_method},
                                        {"join", join_method},
                                        {"startswith", affix_method<true>},
                                        {"endswith", affix_method<false>},
                                        {"find", find_method<false>},
                                        {"rfind", find_method<true>},
                                        {"count", count_method},
                                        {"format", format_method},
                                        {"removeprefix", remove_affix<true>},
                                        {"removesuffix", remove_affix<false>},
                                        {"isdigit", all_chars<is_ascii_digit>},
                                        {"isspace", all_chars<is_space>},
                                        {"islower", has_case<Case::lower, Case::upper>},
                                        {"isupper", has_case<Case::upper, Case::lower>}};

Value dict_get(Session&, const Value& self, const Arguments& args) {
  const auto bound = bind("get", args, {"key", "default"});
  const Value* found = bound[0] ? self.as_dict()->find(*bound[0]) : nullptr;
  return found ? *found : bound[1].value_or(Value(None{}));
}

enum class Part { keys, values, items };
template <Part part>
Value dict_view(Session& session, const Value& self, const Arguments& args) {
  bind("keys, values and items", args, {});
  Values out;
  session.step(static_cast<int64_t>(self.as_dict()->entries.size()));
  for (const auto& [key, value] : self.as_dict()->entries) {
    out.push_back(part == Part::keys ? key : part == Part::values ? value : make_pair(key, value));
  }
  return make_list(std::move(out), List::Kind::view);
}

Value copy(Session&, const Value& self, const Arguments& args) {
  bind("copy", args, {});
  return self;
}

constexpr NamedMethod dict_methods[] = {{"get", dict_get},
                                        {"keys", dict_view<Part::keys>},
                                        {"values", dict_view<Part::values>},
                                        {"items", dict_view<Part::items>},
                                        {"copy", copy}};

Value list_index(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("index", args, {"value"});
  const Values& items = self.as_list()->items;
  for (size_t i = 0; bound[0] && i < items.size(); ++i) {
    if (is_equal(session, items[i], *bound[0])) return static_cast<int64_t>(i);
  }
  throw Fault{"index() of a value that is not in the list"};
}

Value list_count(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("count", args, {"value"});
  const Values& items = self.as_list()->items;
  return static_cast<int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return bound[0] && is_equal(session, item, *bound[0]);
  }));
}

constexpr NamedMethod list_methods[] = {{"index", list_index}, {"count", list_count}, {"copy", copy}};

Value loop_cycle(Session&, const Value& self, const Arguments& args) {
  if (args.positional.empty()) throw Fault{"cycle() needs values"};
  return args.positional[self.as_loop()->index % args.positional.size()];
}

Value loop_changed(Session&, const Value& self, const Arguments& args) {
  std::vector<std::string> keys;
  for (const Value& value : args.positional) keys.push_back(key_of(value));
  Loop& loop = *self.as_loop();
  const bool is_changed = !loop.last_changed || *loop.last_changed != keys;
  loop.last_changed = std::make_shared<const std::vector<std::string>>(std::move(keys));
  return is_changed;
}

constexpr NamedMethod loop_methods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};

std::span<const NamedMethod> methods_of(const Value& value) {
  if (text_of(value)) return text_methods;
  if (value.as_dict()) return dict_methods;
  if (value.as_loop()) return loop_methods;
  const List* list = value.as_list();
  if (list && (list->kind == List::Kind::list || list->kind == List::Kind::tuple)) return list_methods;
  return {};
}

Method find_method_of(const Value& value, std::string_view name) {
  for (const auto& [known, method] : methods_of(value)) {
    if (known == name) return method;
  }
  return nullptr;
}

}  // namespace

bool has_method(const Value& value, std::string_view name) { return find_method_of(value, name) != nullptr; }

Value call_method(Session& session, const Value& self, const std::string& name, const Arguments& arguments) {
  const Method method = find_method_of(self, name);
  if (!method) throw Fault{text("a ", type_name(self), " has no method '", name, "'")};
  return method(session, self, arguments);
}

}  // namespace duoka::data::jinja
