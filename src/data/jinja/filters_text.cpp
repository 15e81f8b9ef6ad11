// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/filters.h"
#include "data/jinja/format.h"
#include "data/jinja/operators.h"
#include "data/jinja/print.h"
#include "data/jinja/strings.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

using Optional = std::optional<Value>;

Value string(Session& session, const Value& operand, const Arguments& args) {
  bind("string", args, {});
  return session.text(to_text(session, operand));
}

Value upper(Session& session, const Value& operand, const Arguments& args) {
  bind("upper", args, {});
  return change_case(session, to_text(session, operand), Case::upper);
}

Value lower(Session& session, const Value& operand, const Arguments& args) {
  bind("lower", args, {});
  return change_case(session, to_text(session, operand), Case::lower);
}

Value capitalize_filter(Session& session, const Value& operand, const Arguments& args) {
  bind("capitalize", args, {});
  return capitalize(session, to_text(session, operand));
}

Value title_filter(Session& session, const Value& operand, const Arguments& args) {
  bind("title", args, {});
  return title(session, to_text(session, operand), true);
}

Value trim(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("trim", args, {"chars"});
  const Text chars = bound[0] && !bound[0]->is_none() ? to_text(session, *bound[0]) : Text();
  return session.text(strip(to_text(session, operand), Side::both, chars.view()));
}

Value replace_filter(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("replace", args, {"old", "new", "count"});
  if (!bound[0] || !bound[1]) throw Fault{"replace needs an old and a new text"};
  const int64_t limit = bound[2] && !bound[2]->is_none() ? int_argument("replace", *bound[2]) : -1;
  return replace(session, to_text(session, operand), to_text(session, *bound[0]), to_text(session, *bound[1]),
                 limit);
}

Text indentation(Session& session, const Optional& width) {
  constexpr int64_t max_width = 1000;
  if (width && width->as_text()) return *width->as_text();
  const int64_t count = width ? int_argument("indent", *width) : 4;
  if (count > max_width) throw Fault{text("indent by ", count, " blanks; ", max_width, " at most")};
  return binary(session, BinaryOp::multiply, Value(" "), Value(count)).as_text()->bytes();
}

Value indent_filter(Session& session, const Value& operand, const Arguments& args) {
  const auto bound = bind("indent", args, {"width", "first", "blank"});
  return indent(session, to_text(session, operand), indentation(session, bound[0]),
                bound[1] && is_true(*bound[1]), bound[2] && is_true(*bound[2]));
}

Value format_filter(Session& session, const Value& operand, const Arguments& args) {
  if (!args.named.empty()) throw Fault{"format with named values is not supported; pass them in order"};
  return format_percent(session, to_text(session, operand), make_list(args.positional, List::Kind::tuple));
}

Value escape(Session& session, const Value& operand, const Arguments& args) {
  bind("escape", args, {});
  static constexpr std::pair<const char*, const char*> escapes[] = {
      {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
  Text out = to_text(session, operand);
  for (const auto& [plain, escaped] : escapes) {
    out = replace(session, out, std::string(plain), std::string(escaped), -1);
  }
  return out;
}

Value wordcount(Session& session, const Value& operand, const Arguments& args) {
  bind("wordcount", args, {});
  return count_words(session, to_text(session, operand));
}

Text separator_of(const Value& separators, const char* which, size_t index) {
  const List* pair = separators.as_list();
  const Text* held = pair && pair->items.size() == 2 ? text_of(pair->items[index]) : nullptr;
  if (!held) throw Fault{text("tojson's separators are a pair of strings; the ", which, " one is not")};
  return *held;
}

Value tojson(Session& session, const Value& operand, const Arguments& args) {
  constexpr int64_t max_width = 100;
  const auto bound = bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound[0] && is_true(*bound[0]);
  style.sort_keys = bound[3] && is_true(*bound[3]);
  if (bound[1] && bound[1]->as_text()) {
    style.indent = bound[1]->as_text()->bytes();
  } else if (bound[1] && !bound[1]->is_none()) {
    const int64_t width = int_argument("tojson", *bound[1]);
    if (width > max_width)
      throw Fault{text("tojson indented by ", width, " blanks; ", max_width, " at most")};
    style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  if (style.indent) style.item_separator = std::string(",");
  if (bound[2] && !bound[2]->is_none()) {
    style.item_separator = separator_of(*bound[2], "first", 0);
    style.key_separator = separator_of(*bound[2], "second", 1);
  }
  return to_json(session, operand, style);
}

}  // namespace

int64_t int_argument(std::string_view what, const Value& value) {
  const auto whole = int_of(value);
  if (!whole) throw Fault{text(what, " needs a whole number, not ", type_name(value))};
  return *whole;
}

std::span<const NamedFilter> text_filters() {
  static constexpr NamedFilter filters[] = {{"string", string},
                                            {"safe", string},
                                            {"upper", upper},
                                            {"lower", lower},
                                            {"title", title_filter},
                                            {"capitalize", capitalize_filter},
                                            {"trim", trim},
                                            {"replace", replace_filter},
                                            {"indent", indent_filter},
                                            {"format", format_filter},
                                            {"escape", escape},
                                            {"e", escape},
                                            {"wordcount", wordcount},
                                            {"tojson", tojson}};
  return filters;
}

}  // namespace duoka::data::jinja
