// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/arguments.h"

#include <algorithm>

#include "duoka/core/text.h"

namespace duoka::data::jinja {

const Value* Arguments::find(std::string_view name) const {
  for (const auto& [known, value] : named) {
    if (known == name) return &value;
  }
  return nullptr;
}

std::vector<std::optional<Value>> bind(std::string_view what, const Arguments& arguments,
                                       const std::vector<std::string_view>& names) {
  if (arguments.positional.size() > names.size()) {
    throw Fault{text(what, " takes ", counted(static_cast<int64_t>(names.size()), "argument"),
                     " at most, not ", arguments.positional.size())};
  }
  std::vector<std::optional<Value>> bound(names.size());
  std::copy(arguments.positional.begin(), arguments.positional.end(), bound.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto place = std::find(names.begin(), names.end(), name);
    if (place == names.end()) throw Fault{text(what, " has no argument named '", name, "'")};
    auto& slot = bound[static_cast<size_t>(place - names.begin())];
    if (slot) throw Fault{text(what, " got its argument '", name, "' twice")};
    slot = value;
  }
  return bound;
}

}  // namespace duoka::data::jinja
