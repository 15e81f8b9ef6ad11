// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/methods.h"

#include <algorithm>
#include <utility>

#include "data/jinja/filters.h"
#include "data/jinja/format.h"
#include "data/jinja/method_tables.h"
#include "data/jinja/operators.h"
#include "data/jinja/print.h"
#include "data/jinja/registry.h"
#include "data/jinja/strings.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

const Text& self_text(const Value& self) { return *text_of(self); }

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
  const auto bound = bind("splitlines", args, {"keepends"});
  return make_list(split_lines(session, self_text(self), bound[0] && is_true(*bound[0])));
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
                                        {"format", format_method},
                                        {"removeprefix", remove_affix<true>},
                                        {"removesuffix", remove_affix<false>}};

Value dict_get(Session&, const Value& self, const Arguments& args) {
  const auto bound = bind("get", args, {"key", "default"});
  if (!bound[0]) throw Fault{"get() needs a key"};
  const Value* found = self.as_dict()->find(*bound[0]);
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

constexpr NamedMethod list_methods[] = {{"copy", copy}, {"index", list_index}, {"count", list_count}};

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
  if (!list || list->kind > List::Kind::tuple) return {};
  const std::span<const NamedMethod> methods = list_methods;
  // A tuple has no copy().
  return list->kind == List::Kind::tuple ? methods.subspan(1) : methods;
}

Method find_in(std::span<const NamedMethod> methods, std::string_view name) {
  for (const auto& [known, method] : methods) {
    if (known == name) return method;
  }
  return nullptr;
}

Method find_method_of(const Value& value, std::string_view name) {
  if (const Method method = find_in(methods_of(value), name)) return method;
  if (!text_of(value)) return nullptr;
  const Method searching = find_in(search_methods(), name);
  return searching ? searching : find_in(check_methods(), name);
}

}  // namespace

const Text& string_argument(std::string_view what, const std::optional<Value>& value) {
  const Text* held = value ? text_of(*value) : nullptr;
  if (!held) throw Fault{text(what, " needs a string", value ? ", not " + type_name(*value) : "")};
  return *held;
}

bool has_method(const Value& value, std::string_view name) { return find_method_of(value, name) != nullptr; }

Value call_method(Session& session, const Value& self, const std::string& name, const Arguments& arguments) {
  const Method method = find_method_of(self, name);
  if (!method) throw Fault{text("a ", type_name(self), " has no method '", name, "'")};
  return method(session, self, arguments);
}

}  // namespace duoka::data::jinja
