// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "data/jinja/operators.h"
#include "data/jinja/unicode.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

/// The bounds of a slice, as Python's slice.indices() gives them: start and step, and how many items.
struct Range {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

int64_t clamp_bound(int64_t at, int64_t size, int64_t lowest, int64_t highest) {
  if (at < 0) at = at < -size ? lowest : at + size;
  return std::clamp(at, lowest, highest);
}

Range range_of(const Value& start, const Value& stop, const Value& step, int64_t size) {
  Range range;
  range.step = int_of(step).value_or(1);
  if (range.step == 0) throw Fault{"a slice's step cannot be 0"};
  // Larger steps reach no second item, and clamping keeps the arithmetic below from overflowing.
  range.step = std::clamp<int64_t>(range.step, -(size + 1), size + 1);
  const bool is_forward = range.step > 0;
  const int64_t lowest = is_forward ? 0 : -1;
  const int64_t highest = is_forward ? size : size - 1;
  const auto first = int_of(start), last = int_of(stop);
  range.start = first ? clamp_bound(*first, size, lowest, highest) : (is_forward ? 0 : size - 1);
  const int64_t end = last ? clamp_bound(*last, size, lowest, highest) : (is_forward ? size : -1);
  const int64_t distance = is_forward ? end - range.start : range.start - end;
  const int64_t stride = is_forward ? range.step : -range.step;
  range.count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  return range;
}

Value slice_text(Session& session, const Text& whole, const Value& start, const Value& stop,
                 const Value& step) {
  const std::string_view bytes = whole.view();
  const Range range = range_of(start, stop, step, count_chars(bytes));
  if (range.step == 1) {
    const size_t begin = char_offset(bytes, range.start);
    const size_t end = begin + char_offset(bytes.substr(begin), range.count);
    return session.text(whole.slice(begin, end));
  }
  std::vector<size_t> offsets;
  for (size_t at = 0; at < bytes.size(); at += char_bytes(bytes, at)) offsets.push_back(at);
  session.step(range.count);
  Text out;
  for (int64_t i = 0, at = range.start; i < range.count; ++i, at += range.step) {
    const size_t offset = offsets[static_cast<size_t>(at)];
    out.append(whole, offset, offset + char_bytes(bytes, offset));
  }
  return session.text(std::move(out));
}

Value slice_list(Session& session, const List& whole, const Value& start, const Value& stop,
                 const Value& step) {
  const Range range = range_of(start, stop, step, static_cast<int64_t>(whole.items.size()));
  session.step(range.count);
  Values items;
  for (int64_t i = 0, at = range.start; i < range.count; ++i, at += range.step) {
    items.push_back(whole.items[static_cast<size_t>(at)]);
  }
  return make_list(std::move(items), whole.kind);
}

bool is_indexable(const List& list) {
  return list.kind == List::Kind::list || list.kind == List::Kind::tuple;
}

}  // namespace

std::optional<Value> find_item(Session& session, const Value& whole, const Value& key) {
  if (const Dict* dict = whole.as_dict()) {
    const Value* found = is_hashable(key) ? dict->find(key) : nullptr;
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  const auto index = int_of(key);
  if (!index) return std::nullopt;
  if (const List* list = whole.as_list()) {
    if (!is_indexable(*list)) return std::nullopt;
    const auto size = static_cast<int64_t>(list->items.size());
    const int64_t at = *index < 0 ? *index + size : *index;
    if (at < 0 || at >= size) return std::nullopt;
    return list->items[static_cast<size_t>(at)];
  }
  const Text* held = text_of(whole);
  if (!held) return std::nullopt;
  session.step(1 + static_cast<int64_t>(held->size() >> 6));
  const int64_t size = *index < 0 ? count_chars(held->view()) : 0;
  const int64_t at = *index < 0 ? *index + size : *index;
  if (at < 0) return std::nullopt;
  const size_t offset = char_offset(held->view(), at);
  if (offset >= held->size()) return std::nullopt;
  return session.text(held->slice(offset, offset + char_bytes(held->view(), offset)));
}

Value slice(Session& session, const Value& whole, const Value& start, const Value& stop, const Value& step) {
  if (whole.is_undefined()) fail_undefined(whole);
  // What Python refuses with a TypeError, Jinja turns into undefined.
  for (const Value* bound : {&start, &stop, &step}) {
    if (!bound->is_none() && !int_of(*bound))
      return Value::undefined(text("a slice needs whole numbers, not ", type_name(*bound)));
  }
  if (const Text* held = text_of(whole)) return slice_text(session, *held, start, stop, step);
  const List* list = whole.as_list();
  if (list && is_indexable(*list)) return slice_list(session, *list, start, stop, step);
  return Value::undefined(text("a ", type_name(whole), " cannot be sliced"));
}

}  // namespace duoka::data::jinja
