// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include "data/jinja/filters.h"
#include "data/jinja/operators.h"
#include "data/jinja/print.h"
#include "data/jinja/registry.h"
#include "duoka/core/text.h"

namespace duoka::data::jinja {
namespace {

Value range(Session& session, const Arguments& args) {
  // Jinja's sandbox has the same bound.
  constexpr int64_t max_items = 100'000;
  const auto bound = bind("range", args, {"start", "stop", "step"});
  if (!bound[0]) throw Fault{"range needs at least one number"};
  const int64_t start = bound[1] ? int_argument("range", *bound[0]) : 0;
  const int64_t stop = int_argument("range", bound[1] ? *bound[1] : *bound[0]);
  const int64_t step = bound[2] ? int_argument("range", *bound[2]) : 1;
  if (step == 0) throw Fault{"range needs a step that is not 0"};
  Values items;
  for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (static_cast<int64_t>(items.size()) >= max_items) {
      throw Fault{text("range has more than ", count_text(max_items), " numbers")};
    }
    session.step();
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return make_list(std::move(items));
}

/// The entries a dict(…) or namespace(…) call asks for: those of a mapping, then the named ones.
std::vector<std::pair<Value, Value>> entries_of(Session& session, std::string_view what,
                                                const Arguments& args) {
  std::vector<std::pair<Value, Value>> entries;
  if (args.positional.size() > 1) throw Fault{text(what, " takes one mapping at most")};
  if (!args.positional.empty()) {
    const Value& given = args.positional[0];
    if (const Dict* dict = given.as_dict()) {
      entries = dict->entries;
    } else {
      for (const Value& item : iterate(session, given)) {
        const Values pair = iterate(session, item);
        if (pair.size() != 2) throw Fault{text(what, " needs pairs of key and value")};
        entries.emplace_back(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) entries.emplace_back(Value(name), value);
  return entries;
}

Value make_namespace(Session& session, const Arguments& args) {
  Namespace* made = session.new_namespace();
  const Value unique = make_dict(entries_of(session, "namespace()", args));
  for (const auto& [key, value] : unique.as_dict()->entries) {
    std::string name = to_text(session, key).bytes();
    if (name.starts_with('_')) throw Fault{"a namespace's attributes cannot begin with '_'"};
    made->attributes.emplace_back(std::move(name), value);
  }
  return made;
}

Value dict(Session& session, const Arguments& args) { return make_dict(entries_of(session, "dict()", args)); }

Value raise_exception(Session& session, const Arguments& args) {
  const auto bound = bind("raise_exception", args, {"message"});
  throw Refusal{bound[0] ? to_text(session, *bound[0]).bytes() : "(no reason given)"};
}

Value strftime_now(Session& session, const Arguments& args) {
  constexpr size_t max_bytes = 1024;
  const auto bound = bind("strftime_now", args, {"format"});
  const Text* form = bound[0] ? bound[0]->as_text() : nullptr;
  if (!form) throw Fault{"strftime_now needs a format"};
  const std::time_t now = session.now();
  std::tm parts{};
  gmtime_r(&now, &parts);
  char buffer[max_bytes];
  // A blank in front tells an empty result from one that does not fit.
  const std::string padded = " " + form->bytes();
  const size_t size = std::strftime(buffer, sizeof buffer, padded.c_str(), &parts);
  if (size == 0) throw Fault{"the format of strftime_now is too long"};
  return std::string(buffer + 1, size - 1);
}

constexpr std::pair<std::string_view, Global> globals[] = {{"range", range},
                                                           {"namespace", make_namespace},
                                                           {"dict", dict},
                                                           {"raise_exception", raise_exception},
                                                           {"strftime_now", strftime_now}};

}  // namespace

Global find_global(std::string_view name) {
  for (const auto& [known, global] : globals) {
    if (known == name) return global;
  }
  return nullptr;
}

}  // namespace duoka::data::jinja
