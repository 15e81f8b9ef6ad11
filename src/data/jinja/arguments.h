// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/jinja/value.h"

namespace duoka::data::jinja {

/// What a call passes.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;

  /// Null when there is none of this name.
  const Value* find(std::string_view name) const;
};

/// `arguments` in the order of `names`, absent ones empty. Throws Fault for too many, for an unknown name
/// and for one given twice; `what` is the function in messages.
std::vector<std::optional<Value>> bind(std::string_view what, const Arguments& arguments,
                                       const std::vector<std::string_view>& names);

}  // namespace duoka::data::jinja
