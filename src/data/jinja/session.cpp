// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/session.h"

#include "duoka/core/text.h"

namespace duoka::data::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->parent) {
    for (const auto& [known, value] : scope->names) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [known, held] : names) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  names.emplace_back(name, std::move(value));
}

void Session::step(int64_t count) {
  steps_ += count;
  if (steps_ > limits_.max_steps) {
    throw Fault{duoka::text("the rendering takes more than ", count_text(limits_.max_steps), " steps")};
  }
}

void Session::make_bytes(size_t bytes, size_t total) {
  if (total > static_cast<size_t>(limits_.max_output_bytes)) {
    throw Fault{duoka::text("a text grows past ", bytes_text(limits_.max_output_bytes))};
  }
  bytes_ += static_cast<int64_t>(bytes);
  if (bytes_ > limits_.max_work_bytes) {
    throw Fault{
        duoka::text("the rendering makes more than ", bytes_text(limits_.max_work_bytes), " of text")};
  }
}

Value Session::text(Text made) {
  make_bytes(made.size(), made.size());
  return Value(std::move(made));
}

void Session::enter() {
  if (++depth_ > limits_.max_depth) {
    --depth_;
    throw Fault{
        duoka::text("macros, blocks and expressions nest deeper than ", limits_.max_depth, " levels")};
  }
}

Scope* Session::new_scope(const Scope* parent) {
  scopes_.push_back({parent, {}});
  return &scopes_.back();
}

void Session::drop_scope(int64_t scopes_kept) {
  if (scopes_kept == scopes_kept_) scopes_.pop_back();
}

}  // namespace duoka::data::jinja
