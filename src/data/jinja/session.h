// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "data/jinja/value.h"
#include "duoka/data/chat_template.h"

namespace duoka::data::jinja {

/// One level of names. Reading walks up, setting stays in the level.
struct Scope {
  const Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> names;  ///< Names are the program's, which outlives it.

  /// Null when neither this level nor one around it has the name.
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

/// What one rendering owns: its budget, and whatever a template could tie into a cycle.
class Session {
 public:
  /// `now`: seconds since 1970 of the local clock, for strftime_now.
  Session(const ChatTemplate::Limits& limits, int64_t now) : limits_(limits), now_(now) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Each throws Fault when its limit is passed.
  void step(int64_t count = 1);
  /// `bytes` of text are about to be made, `total` being the size of the value they belong to.
  void make_bytes(size_t bytes, size_t total);

  /// The finished text as a value, charged to the budget.
  Value text(Text made);

  Namespace* new_namespace() { return &namespaces_.emplace_back(); }
  Scope* new_scope(const Scope* parent);
  /// Takes back the newest scope, unless a macro defined since `scopes_kept` may still see it.
  void drop_scope(int64_t scopes_kept);
  /// A macro was defined: the scopes there are now must stay.
  void keep_scopes() { ++scopes_kept_; }
  int64_t scopes_kept() const { return scopes_kept_; }

  int64_t now() const { return now_; }

  /// One level of recursion, for as long as it lives.
  class Level {
   public:
    explicit Level(Session& session) : session_(session) { session_.enter(); }
    ~Level() { --session_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Session& session_;
  };

 private:
  void enter();

  ChatTemplate::Limits limits_;
  int64_t now_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
  int depth_ = 0;
  int64_t scopes_kept_ = 0;
  std::deque<Namespace> namespaces_;
  std::deque<Scope> scopes_;
};

}  // namespace duoka::data::jinja
