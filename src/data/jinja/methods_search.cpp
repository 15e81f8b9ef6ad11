// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "data/jinja/filters.h"
#include "data/jinja/method_tables.h"
#include "data/jinja/strings.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

/// self[start:end] for the arguments behind the first, with its place; as Python's find() takes them.
struct Window {
  std::string_view bytes;
  int64_t first_char = 0;
  bool is_beyond = false;  ///< `start` lies behind the end: not even "" is found there.
};

int64_t clamped(const std::optional<Value>& bound, int64_t size, int64_t otherwise) {
  if (!bound || bound->is_none()) return otherwise;
  const int64_t at = int_argument("find", *bound);
  return at < 0 ? std::max<int64_t>(at + size, 0) : at;
}

Window window(Session& session, const Text& self, const std::optional<Value>& start,
              const std::optional<Value>& end) {
  session.step(1 + static_cast<int64_t>(self.size() >> 6));
  if (!start && !end) return {self.view()};
  const int64_t size = count_chars(self.view());
  const int64_t first = clamped(start, size, 0);
  const int64_t last = std::min(clamped(end, size, size), size);
  if (first > last) return {{}, first, true};
  const size_t begin = char_offset(self.view(), first);
  return {self.view().substr(begin, char_offset(self.view().substr(begin), last - first)), first};
}

template <bool is_last>
int64_t position(Session& session, const Value& self, const Arguments& args, std::string_view what) {
  const auto bound = bind(what, args, {"sub", "start", "end"});
  const std::string_view part = string_argument(what, bound[0]).view();
  const Window in = window(session, *text_of(self), bound[1], bound[2]);
  const size_t at = in.is_beyond ? std::string_view::npos
                    : is_last    ? in.bytes.rfind(part)
                                 : in.bytes.find(part);
  return at == std::string_view::npos ? -1 : in.first_char + count_chars(in.bytes.substr(0, at));
}

template <bool is_last>
Value find_method(Session& session, const Value& self, const Arguments& args) {
  return position<is_last>(session, self, args, "find");
}

template <bool is_last>
Value index_method(Session& session, const Value& self, const Arguments& args) {
  const int64_t at = position<is_last>(session, self, args, "index");
  if (at < 0) throw Fault{"index() of a text that is not there; find() gives -1 instead"};
  return at;
}

Value count_method(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("count", args, {"sub", "start", "end"});
  const std::string_view part = string_argument("count", bound[0]).view();
  const Window in = window(session, *text_of(self), bound[1], bound[2]);
  if (in.is_beyond) return 0;
  if (part.empty()) return count_chars(in.bytes) + 1;
  int64_t count = 0;
  for (size_t at = in.bytes.find(part); at != std::string_view::npos;
       at = in.bytes.find(part, at + part.size())) {
    session.step();
    ++count;
  }
  return count;
}

template <bool is_start>
Value affix_method(Session& session, const Value& self, const Arguments& args) {
  constexpr std::string_view name = is_start ? "startswith" : "endswith";
  const auto bound = bind(name, args, {"affix", "start", "end"});
  const List* several = bound[0] ? bound[0]->as_list() : nullptr;
  const bool is_tuple = several && several->kind == List::Kind::tuple;
  const Values affixes = is_tuple ? several->items : Values{bound[0].value_or(Value(None{}))};
  const Window in = window(session, *text_of(self), bound[1], bound[2]);
  return std::any_of(affixes.begin(), affixes.end(), [&](const Value& affix) {
    session.step();
    const std::string_view part = string_argument(name, affix).view();
    return !in.is_beyond && (is_start ? in.bytes.starts_with(part) : in.bytes.ends_with(part));
  });
}

template <bool is_last>
Value partition_method(Session& session, const Value& self, const Arguments& args) {
  const auto bound = bind("partition", args, {"sep"});
  const Text& separator = string_argument("partition", bound[0]);
  if (separator.is_empty()) throw Fault{"partition() needs a separator that is not empty"};
  const Text& whole = *text_of(self);
  session.step(1 + static_cast<int64_t>(whole.size() >> 6));
  const size_t at = is_last ? whole.view().rfind(separator.view()) : whole.view().find(separator.view());
  const auto part = [&](size_t begin, size_t end) { return session.text(whole.slice(begin, end)); };
  if (at == std::string_view::npos) {
    const Values only = is_last ? Values{"", "", self} : Values{self, "", ""};
    return make_list(only, List::Kind::tuple);
  }
  const size_t behind = at + separator.size();
  return make_list({part(0, at), part(at, behind), part(behind, whole.size())}, List::Kind::tuple);
}

}  // namespace

std::span<const NamedMethod> search_methods() {
  static constexpr NamedMethod methods[] = {{"startswith", affix_method<true>},
                                            {"endswith", affix_method<false>},
                                            {"find", find_method<false>},
                                            {"rfind", find_method<true>},
                                            {"index", index_method<false>},
                                            {"rindex", index_method<true>},
                                            {"count", count_method},
                                            {"partition", partition_method<false>},
                                            {"rpartition", partition_method<true>}};
  return methods;
}

}  // namespace duoka::data::jinja
