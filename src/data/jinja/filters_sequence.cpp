// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "data/jinja/filters.h"
#include "data/jinja/operators.h"
#include "data/jinja/print.h"
#include "data/jinja/strings.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

using Optional = std::optional<Value>;

Value length_filter(Session& session, const Value& operand, const Arguments& args) {
  bind("length", args, {});
  return length(session, operand);
}

Value list(Session& session, const Value& operand, const Arguments& args) {
  bind("list", args, {});
  return make_list(iterate(session, operand));
}

Value first(Session& session, const Value& operand, const Arguments& args) {
  bind("first", args, {});
  const Values items = iterate(session, operand);
  return items.empty() ? Value::undefined("first of an empty sequence") : items.front();
}

Value last(Session& session, const Value& operand, const Arguments& args) {
  bind("last", args, {});
  const Values items = iterate(session, operand);
  return items.empty() ? Value::undefined("last of an empty sequence") : items.back();
}

Value items_filter(Session&, const Value& operand, const Arguments& args) {
  bind("items", args, {});
  Values pairs;
  if (operand.is_undefined()) return make_list({}, List::Kind::generator);
  const Dict* dict = operand.as_dict();
  if (!dict) throw Fault{text("items needs a mapping, not ", type_name(operand))};
  for (const auto& [key, value] : dict->entries) pairs.push_back(make_pair(key, value));
  return make_list(std::move(pairs), List::Kind::generator);
}

Value reverse(Session& session, const Value& operand, const Arguments& args) {
  bind("reverse", args, {});
  if (operand.as_text()) return slice(session, operand, None{}, None{}, Value(-1));
  Values items = iterate(session, operand);
  std::reverse(items.begin(), items.end());
  return make_list(std::move(items), List::Kind::generator);
}

/// What sorting and uniqueness compare: the attribute, without case unless asked for.
Value comparison_key(Session& session, const Value& item, const Optional& attribute, bool is_case_sensitive) {
  Value key = attribute && !attribute->is_none() ? attribute_path(session, item, *attribute) : item;
  if (is_case_sensitive || !key.as_text()) return key;
  return change_case(session, *key.as_text(), Case::lower);
}

bool flag(const Optional& value) { return value && is_true(*value); }

Values sorted(Session& session, const Values& items, const Values& keys, bool is_reversed) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return is_reversed ? is_less(session, keys[b], keys[a]) : is_less(session, keys[a], keys[b]);
  });
  Values out;
  for (const size_t i : order) out.push_back(items[i]);
  return out;
}

/// "a,b" sorts by a, then by b.
Values sort_attributes(Session& session, const Optional& attribute) {
  const Text* names = attribute ? attribute->as_text() : nullptr;
  if (!names) return {attribute.value_or(Value(None{}))};
  const Text comma(",");
  return split(session, *names, &comma, -1);
}

Value sort(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("sort", args, {"reverse", "case_sensitive", "attribute"});
  const Values items = iterate(session, operand);
  Values keys;
  const Values attributes = sort_attributes(session, bound[2]);
  for (const Value& item : items) {
    Values parts;
    for (const Value& attribute : attributes)
      parts.push_back(comparison_key(session, item, attribute, flag(bound[1])));
    keys.push_back(make_list(std::move(parts)));
  }
  return make_list(sorted(session, items, keys, flag(bound[0])));
}

Value dictsort(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("dictsort", args, {"case_sensitive", "by", "reverse"});
  const Dict* dict = operand.as_dict();
  if (!dict) throw Fault{text("dictsort needs a mapping, not ", type_name(operand))};
  const bool is_by_value = bound[1] && is_equal(session, *bound[1], Value("value"));
  if (bound[1] && !is_by_value && !is_equal(session, *bound[1], Value("key"))) {
    throw Fault{"dictsort sorts by 'key' or by 'value'"};
  }
  Values items, keys;
  for (const auto& [key, value] : dict->entries) {
    items.push_back(make_pair(key, value));
    keys.push_back(comparison_key(session, is_by_value ? value : key, std::nullopt, flag(bound[0])));
  }
  return make_list(sorted(session, items, keys, flag(bound[2])));
}

Value unique(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("unique", args, {"case_sensitive", "attribute"});
  Values out;
  std::unordered_map<std::string, bool> seen;
  for (const Value& item : iterate(session, operand)) {
    const Value key = comparison_key(session, item, bound[1], flag(bound[0]));
    if (seen.try_emplace(key_of(key), true).second) out.push_back(item);
  }
  return make_list(std::move(out), List::Kind::generator);
}

Value extreme(Session& session, std::string_view name, const Value& operand, const Arguments& args,
              bool is_max) {
  const auto bound = bind(name, args, {"case_sensitive", "attribute"});
  const Values items = iterate(session, operand);
  if (items.empty()) return Value::undefined(text(name, " of an empty sequence"));
  size_t best = 0;
  const auto key = [&](size_t i) { return comparison_key(session, items[i], bound[1], flag(bound[0])); };
  for (size_t i = 1; i < items.size(); ++i) {
    if (is_max ? is_less(session, key(best), key(i)) : is_less(session, key(i), key(best))) best = i;
  }
  return items[best];
}

Value min_filter(Session& session, const Value& operand, const Arguments& args) {
  return extreme(session, "min", operand, args, false);
}
Value max_filter(Session& session, const Value& operand, const Arguments& args) {
  return extreme(session, "max", operand, args, true);
}

Value sum(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("sum", args, {"attribute", "start"});
  Value total = bound[1].value_or(Value(0));
  for (const Value& item : iterate(session, operand)) {
    const bool has_path = bound[0] && !bound[0]->is_none();
    total = binary(session, BinaryOp::add, total, has_path ? attribute_path(session, item, *bound[0]) : item);
  }
  return total;
}

Value join_filter(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("join", args, {"d", "attribute"});
  Values items = iterate(session, operand);
  if (bound[1] && !bound[1]->is_none()) {
    for (Value& item : items) item = attribute_path(session, item, *bound[1]);
  }
  return join(session, items, bound[0] ? to_text(session, *bound[0]) : Text());
}

Value batch(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("batch", args, {"linecount", "fill_with"});
  const int64_t size = bound[0] ? int_argument("batch", *bound[0]) : 0;
  if (size < 1) throw Fault{"batch needs a size of at least 1"};
  Values batches, current;
  for (Value& item : iterate(session, operand)) {
    current.push_back(std::move(item));
    if (static_cast<int64_t>(current.size()) == size)
      batches.push_back(make_list(std::exchange(current, {})));
  }
  if (!current.empty()) {
    const bool fills = bound[1] && !bound[1]->is_none();
    while (fills && static_cast<int64_t>(current.size()) < size) {
      session.step();
      current.push_back(*bound[1]);
    }
    batches.push_back(make_list(std::move(current)));
  }
  return make_list(std::move(batches), List::Kind::generator);
}

}  // namespace

std::span<const NamedFilter> sequence_filters() {
  static constexpr NamedFilter filters[] = {{"length", length_filter},
                                            {"count", length_filter},
                                            {"list", list},
                                            {"first", first},
                                            {"last", last},
                                            {"items", items_filter},
                                            {"reverse", reverse},
                                            {"sort", sort},
                                            {"dictsort", dictsort},
                                            {"unique", unique},
                                            {"min", min_filter},
                                            {"max", max_filter},
                                            {"sum", sum},
                                            {"join", join_filter},
                                            {"batch", batch}};
  return filters;
}

}  // namespace duoka::data::jinja
