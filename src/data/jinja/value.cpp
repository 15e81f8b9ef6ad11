// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

constexpr size_t max_key_bytes = 1 << 20;

int checked_depth(int inner) {
  if (inner >= max_value_depth) throw Fault{text("a value nests deeper than ", max_value_depth, " levels")};
  return inner + 1;
}

int deepest(const Values& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return depth;
}

}  // namespace

Value Value::undefined(std::string why) {
  return Undefined{std::make_shared<const std::string>(std::move(why))};
}

Namespace* Value::as_namespace() const {
  const auto* held = std::get_if<Namespace*>(&v_);
  return held ? *held : nullptr;
}

const Value* Dict::find(const Value& key) const {
  const auto place = index.find(key_of(key));
  return place == index.end() ? nullptr : &entries[place->second].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto place = index.find("s" + std::string(key));
  return place == index.end() ? nullptr : &entries[place->second].second;
}

Value make_list(Values items, List::Kind kind) {
  const int depth = checked_depth(deepest(items));
  return std::make_shared<const List>(List{std::move(items), kind, depth, false});
}

Value make_pair(Value first, Value second) {
  return make_list({std::move(first), std::move(second)}, List::Kind::tuple);
}

Value make_dict(std::vector<std::pair<Value, Value>> entries) {
  auto dict = std::make_shared<Dict>();
  int depth = 0;
  for (auto& [key, value] : entries) {
    depth = std::max({depth, depth_of(key), depth_of(value)});
    const auto [place, is_new] = dict->index.try_emplace(key_of(key), dict->entries.size());
    if (is_new) {
      dict->entries.emplace_back(std::move(key), std::move(value));
    } else {
      dict->entries[place->second].second = std::move(value);
    }
  }
  dict->depth = checked_depth(depth);
  return std::shared_ptr<const Dict>(std::move(dict));
}

Value make_method(std::string name, Value self) {
  Callable method{Callable::Kind::method, std::move(name), std::move(self)};
  method.depth = checked_depth(depth_of(method.self));
  return std::make_shared<const Callable>(std::move(method));
}

int depth_of(const Value& value) {
  if (const List* list = value.as_list()) return list->depth;
  if (const Dict* dict = value.as_dict()) return dict->depth;
  if (const Loop* loop = value.as_loop()) return loop->depth;
  if (const Callable* callable = value.as_callable()) return callable->depth;
  return 0;
}

std::string key_of(const Value& value) {
  if (const Text* held = value.as_text()) return "s" + held->bytes();
  if (const bool* held = value.as_bool()) return *held ? "i1" : "i0";
  if (const int64_t* held = value.as_int()) return "i" + std::to_string(*held);
  if (const double* held = value.as_double()) {
    if (std::trunc(*held) == *held && std::abs(*held) < 9e15) {
      return "i" + std::to_string(static_cast<int64_t>(*held));
    }
    return "d" + text(std::hexfloat, *held);
  }
  if (value.is_none()) return "n";
  const List* list = value.as_list();
  if (!list || list->kind != List::Kind::tuple) {
    throw Fault{text("a ", type_name(value), " cannot be a key; use a string, a number or a tuple")};
  }
  std::string key = "t";
  for (const Value& item : list->items) {
    const std::string part = key_of(item);
    key += std::to_string(part.size()) + ":" + part;
    // A tuple that holds another one twice doubles its key at each level.
    if (key.size() > max_key_bytes) throw Fault{"a tuple is too large to be a key"};
  }
  return key;
}

bool is_hashable(const Value& value) {
  const List* list = value.as_list();
  if (list && list->kind == List::Kind::tuple) {
    return std::all_of(list->items.begin(), list->items.end(), is_hashable);
  }
  return value.as_text() || value.as_bool() || value.as_int() || value.as_double() || value.is_none();
}

std::string type_name(const Value& value) {
  struct Name {
    std::string operator()(const Undefined&) const { return "undefined"; }
    std::string operator()(const None&) const { return "NoneType"; }
    std::string operator()(bool) const { return "bool"; }
    std::string operator()(int64_t) const { return "int"; }
    std::string operator()(double) const { return "float"; }
    std::string operator()(const std::shared_ptr<const Text>&) const { return "str"; }
    std::string operator()(const std::shared_ptr<const List>& list) const {
      static const char* const names[] = {"list", "tuple", "generator", "dict view"};
      return names[static_cast<int>(list->kind)];
    }
    std::string operator()(const std::shared_ptr<const Dict>&) const { return "dict"; }
    std::string operator()(Namespace*) const { return "namespace"; }
    std::string operator()(const std::shared_ptr<const Callable>&) const { return "function"; }
    std::string operator()(const std::shared_ptr<Loop>&) const { return "loop"; }
  };
  return std::visit(Name{}, value.variant());
}

}  // namespace duoka::data::jinja
