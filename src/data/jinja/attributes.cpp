// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include "data/jinja/methods.h"
#include "data/jinja/operators.h"
#include "data/jinja/print.h"
#include "data/jinja/registry.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

/// What Jinja's immutable sandbox hides, since it changes a list or a dict.
constexpr std::string_view changing_methods[] = {"append",  "clear",      "extend",  "insert",
                                                 "pop",     "remove",     "reverse", "sort",
                                                 "popitem", "setdefault", "update"};

bool is_changing(const Value& value, std::string_view name) {
  if (!value.as_dict() && !value.as_list()) return false;
  return std::find(std::begin(changing_methods), std::end(changing_methods), name) !=
         std::end(changing_methods);
}

Value missing(const Value& value, std::string_view name) {
  return Value::undefined(text("a ", type_name(value), " has no attribute '", name, "'"));
}

Value forbidden(const Value& value, std::string_view name) {
  return Value::undefined(text("'", name, "' of a ", type_name(value),
                               " is not allowed: templates cannot change values, make a new one with +"));
}

Value loop_neighbour(const Loop& loop, size_t index, const char* which) {
  if (index < loop.items.size()) return loop.items[index];
  return Value::undefined(text("there is no ", which, " item"));
}

Value loop_attribute(const Value& value, std::string_view name) {
  const Loop& loop = *value.as_loop();
  const auto index = static_cast<int64_t>(loop.index);
  const auto size = static_cast<int64_t>(loop.items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index == size - 1;
  if (name == "length") return size;
  // Of recursive loops, which there are none of.
  if (name == "depth") return 1;
  if (name == "depth0") return 0;
  // The index before 0 wraps and lies behind every item.
  if (name == "previtem") return loop_neighbour(loop, loop.index - 1, "previous");
  if (name == "nextitem") return loop_neighbour(loop, loop.index + 1, "next");
  if (name == "cycle" || name == "changed") return make_method(std::string(name), value);
  return missing(value, name);
}

Value namespace_attribute(const Value& value, std::string_view name) {
  for (const auto& [known, held] : value.as_namespace()->attributes) {
    if (known == name) return held;
  }
  return missing(value, name);
}

/// An attribute in Python's sense: a method, or what a loop and a namespace have. Empty when there is none.
std::optional<Value> python_attribute(const Value& value, std::string_view name) {
  if (name.starts_with("__")) {
    return Value::undefined(
        text("'", name, "' of a ", type_name(value), " is Python's own, and not allowed in templates"));
  }
  if (value.as_loop()) return loop_attribute(value, name);
  if (value.as_namespace()) return namespace_attribute(value, name);
  if (is_changing(value, name)) return forbidden(value, name);
  if (has_method(value, name)) return make_method(std::string(name), value);
  return std::nullopt;
}

}  // namespace

Value get_attribute(Session&, const Value& value, std::string_view name) {
  if (value.is_undefined()) fail_undefined(value);
  if (auto found = python_attribute(value, name)) return *found;
  const Dict* dict = value.as_dict();
  const Value* item = dict ? dict->find(name) : nullptr;
  return item ? *item : missing(value, name);
}

Value get_subscript(Session& session, const Value& value, const Value& key) {
  if (value.is_undefined()) fail_undefined(value);
  if (auto found = find_item(session, value, key)) return *found;
  const Text* name = key.as_text();
  if (!name) return Value::undefined(text("a ", type_name(value), " has no such item"));
  return python_attribute(value, name->view()).value_or(missing(value, name->view()));
}

}  // namespace duoka::data::jinja
