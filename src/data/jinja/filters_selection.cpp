// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "data/jinja/filters.h"
#include "data/jinja/methods.h"
#include "data/jinja/operators.h"
#include "data/jinja/print.h"
#include "data/jinja/strings.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

Value default_filter(Session&, const Value& operand, const Arguments& args) {
  const auto bound = bind("default", args, {"default_value", "boolean"});
  const bool is_by_truth = bound[1] && is_true(*bound[1]);
  if (!operand.is_undefined() && (!is_by_truth || is_true(operand))) return operand;
  return bound[0].value_or(Value(""));
}

Value attr(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("attr", args, {"name"});
  if (!bound[0]) throw Fault{"attr needs a name"};
  const Text name = to_text(session, *bound[0]);
  if (operand.as_dict() && !has_method(operand, name.view())) {
    return Value::undefined("attr does not look into a dict");
  }
  return get_attribute(session, operand, name.view());
}

/// The arguments behind the first `count` positional ones.
Arguments rest_of(const Arguments& args, size_t count) {
  Arguments rest = args;
  const size_t drop = std::min(count, rest.positional.size());
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(drop));
  return rest;
}

/// Nothing for none and whatever else counts as false, as in Jinja2.
Values iterate_true(Session& session, const Value& operand) {
  return is_true(operand) ? iterate(session, operand) : Values{};
}

Value map_attribute(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("map", args, {"attribute", "default"});
  const Value* otherwise = bound[1] ? &*bound[1] : nullptr;
  Values out;
  for (const Value& item : iterate_true(session, operand)) {
    out.push_back(attribute_path(session, item, *bound[0], otherwise));
  }
  return make_list(std::move(out), List::Kind::generator);
}

Value map(Session& session, const Value& operand, const Arguments& args) {
  if (args.positional.empty() && args.find("attribute")) return map_attribute(session, operand, args);
  const std::string name = args.positional.empty() ? "" : to_text(session, args.positional[0]).bytes();
  const Filter filter = find_filter(name);
  if (!filter) throw Fault{name.empty() ? "map needs a filter's name or attribute=" : unknown_filter(name)};
  const Arguments rest = rest_of(args, 1);
  Values out;
  for (const Value& item : iterate_true(session, operand)) out.push_back(filter(session, item, rest));
  return make_list(std::move(out), List::Kind::generator);
}

/// The items whose value (or the attribute at `path` of it) passes a test named in `args` behind `skipped`
/// arguments; without a name, truth decides.
Value select_items(Session& session, const Value& operand, const Arguments& args, const Value* path,
                   bool is_kept) {
  const size_t skipped = path ? 1 : 0;
  const bool has_test = args.positional.size() > skipped;
  const std::string name = has_test ? to_text(session, args.positional[skipped]).bytes() : "";
  const Test test = has_test ? find_test(name) : nullptr;
  if (has_test && !test) throw Fault{unknown_test(name)};
  const Arguments rest = rest_of(args, skipped + 1);
  Values out;
  for (const Value& item : iterate_true(session, operand)) {
    const Value value = path ? attribute_path(session, item, *path) : item;
    const bool passes = test ? test(session, value, rest) : is_true(value);
    if (passes == is_kept) out.push_back(item);
  }
  return make_list(std::move(out), List::Kind::generator);
}

Value select(Session& session, const Value& operand, const Arguments& args) {
  return select_items(session, operand, args, nullptr, true);
}
Value reject(Session& session, const Value& operand, const Arguments& args) {
  return select_items(session, operand, args, nullptr, false);
}

const Value& path_argument(std::string_view name, const Arguments& args) {
  if (args.positional.empty()) throw Fault{text(name, " needs an attribute's name")};
  return args.positional[0];
}
Value selectattr(Session& session, const Value& operand, const Arguments& args) {
  return select_items(session, operand, args, &path_argument("selectattr", args), true);
}
Value rejectattr(Session& session, const Value& operand, const Arguments& args) {
  return select_items(session, operand, args, &path_argument("rejectattr", args), false);
}

Value groupby(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("groupby", args, {"attribute"});
  if (!bound[0]) throw Fault{"groupby needs an attribute's name"};
  const Filter sort = find_filter("sort");
  const Value sorted = sort(session, operand, Arguments{{}, {{"attribute", *bound[0]}}});
  std::vector<std::pair<Value, Values>> groups;
  for (const Value& item : iterate(session, sorted)) {
    Value key = attribute_path(session, item, *bound[0]);
    if (groups.empty() || !is_equal(session, groups.back().first, key))
      groups.emplace_back(std::move(key), Values{});
    groups.back().second.push_back(item);
  }
  Values out;
  for (auto& [key, items] : groups) out.push_back(make_pair(key, make_list(std::move(items))));
  return make_list(std::move(out));
}

}  // namespace

Value attribute_path(Session& session, const Value& item, const Value& path, const Value* otherwise) {
  const auto step_into = [&](const Value& whole, const Value& key) {
    Value found = get_subscript(session, whole, key);
    return otherwise && found.is_undefined() ? *otherwise : found;
  };
  const Text* held = path.as_text();
  if (!held) return step_into(item, path);
  Value at = item;
  const Text dot(".");
  for (const Value& step : split(session, *held, &dot, -1)) {
    const std::string& name = step.as_text()->bytes();
    int64_t index = 0;
    const char* end = name.data() + name.size();
    const auto read = std::from_chars(name.data(), end, index);
    const bool is_index = read.ec == std::errc{} && read.ptr == end;
    at = step_into(at, is_index ? Value(index) : step);
  }
  return at;
}

std::span<const NamedFilter> selection_filters() {
  static constexpr NamedFilter filters[] = {{"default", default_filter},
                                            {"d", default_filter},
                                            {"attr", attr},
                                            {"map", map},
                                            {"select", select},
                                            {"reject", reject},
                                            {"selectattr", selectattr},
                                            {"rejectattr", rejectattr},
                                            {"groupby", groupby}};
  return filters;
}

}  // namespace duoka::data::jinja
