// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "data/jinja/text.h"

namespace duoka::data::jinja {

class Value;
struct List;
struct Dict;
struct Loop;
struct Callable;
struct Scope;
struct MacroNode;

/// What went wrong inside the interpreter, before the line is known. Becomes a FormatError.
struct Fault {
  std::string why;
};
/// The template called raise_exception. Becomes a DataError.
struct Refusal {
  std::string why;
};

/// Lists and dicts never contain themselves (they are immutable) and nest no deeper than this, so walks
/// and destructors may recurse.
inline constexpr int max_value_depth = 200;

/// `why`: the message if the value is used for anything but a test or printing.
struct Undefined {
  std::shared_ptr<const std::string> why;
};
struct None {
  /// Of a message's null content: the empty text, with its mark, that it prints as. Else null.
  std::shared_ptr<const Text> content;
};
/// Attributes set by a template. Owned by the session, as templates can make cycles of these.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

/// A value of a template; Python's semantics. Cheap to copy: everything large is shared and immutable.
class Value {
 public:
  using Variant = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
                               std::shared_ptr<const List>, std::shared_ptr<const Dict>, Namespace*,
                               std::shared_ptr<const Callable>, std::shared_ptr<Loop>>;

  Value() = default;
  Value(Undefined v) : v_(std::move(v)) {}
  Value(None v) : v_(std::move(v)) {}
  Value(bool v) : v_(v) {}
  Value(int64_t v) : v_(v) {}
  Value(int v) : v_(int64_t{v}) {}
  Value(double v) : v_(v) {}
  Value(Text v) : v_(std::make_shared<const Text>(std::move(v))) {}
  Value(std::string v) : Value(Text(std::move(v))) {}
  Value(const char* v) : Value(std::string(v)) {}
  Value(std::shared_ptr<const List> v) : v_(std::move(v)) {}
  Value(std::shared_ptr<const Dict> v) : v_(std::move(v)) {}
  Value(Namespace* v) : v_(v) {}
  Value(std::shared_ptr<const Callable> v) : v_(std::move(v)) {}
  Value(std::shared_ptr<Loop> v) : v_(std::move(v)) {}

  static Value undefined(std::string why);

  bool is_undefined() const { return std::holds_alternative<Undefined>(v_); }
  bool is_none() const { return std::holds_alternative<None>(v_); }
  bool is_null_content() const { return is_none() && std::get<None>(v_).content; }

  // Null where the value is of another type.
  const bool* as_bool() const { return std::get_if<bool>(&v_); }
  const int64_t* as_int() const { return std::get_if<int64_t>(&v_); }
  const double* as_double() const { return std::get_if<double>(&v_); }
  const Text* as_text() const { return pointee<const Text>(); }
  const List* as_list() const { return pointee<const List>(); }
  const Dict* as_dict() const { return pointee<const Dict>(); }
  const Callable* as_callable() const { return pointee<const Callable>(); }
  Loop* as_loop() const { return pointee<Loop>(); }
  Namespace* as_namespace() const;

  const Variant& variant() const { return v_; }

 private:
  template <class T>
  T* pointee() const {
    const auto* held = std::get_if<std::shared_ptr<T>>(&v_);
    return held ? held->get() : nullptr;
  }

  Variant v_;
};

using Values = std::vector<Value>;

/// All of Python's sequences; `kind` says how it prints and what it can do. Generators are made at once,
/// but keep Python's manners: always true, no length, no index.
struct List {
  enum class Kind { list, tuple, generator, view };
  Values items;
  Kind kind = Kind::list;
  int depth = 1;
  mutable bool is_spent = false;  ///< Of a generator that was walked: the next walk finds nothing.
};

/// Keeps the order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string, size_t> index;  ///< key_of(key) -> place in `entries`.
  int depth = 1;

  /// Null when absent. Throws Fault for a key that Python cannot hash.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
};

/// The `loop` variable of a for block.
struct Loop {
  Values items;
  size_t index = 0;
  int depth = 1;
  std::shared_ptr<const std::vector<std::string>> last_changed;  ///< Of loop.changed().
};

/// Something a template can call.
struct Callable {
  enum class Kind { global, method, macro };
  Kind kind;
  std::string name;
  Value self;                        ///< Of a method.
  const MacroNode* macro = nullptr;  ///< Of a macro; owned by the program.
  Scope* scope = nullptr;            ///< Where the macro was defined; owned by the session.
  int depth = 1;
};

/// Throws Fault past max_value_depth.
Value make_list(Values items, List::Kind kind = List::Kind::list);
Value make_pair(Value first, Value second);
/// A later entry with an equal key replaces the value of an earlier one, as in Python.
Value make_dict(std::vector<std::pair<Value, Value>> entries);
Value make_method(std::string name, Value self);

/// How deep `value` nests: 0 for what contains nothing.
int depth_of(const Value& value);
/// Equal for keys that Python takes as equal (1, 1.0, True). Throws Fault for unhashable values.
std::string key_of(const Value& value);
/// Whether key_of() takes it, size apart.
bool is_hashable(const Value& value);
/// Python's name of the type, for messages: "str", "NoneType".
std::string type_name(const Value& value);

}  // namespace duoka::data::jinja
