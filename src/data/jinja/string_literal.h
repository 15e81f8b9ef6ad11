// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace duoka::data::jinja {

/// What the inside of a quoted string stands for: Python's escapes (\n, \t, \\, \', \", \xHH, \uHHHH,
/// \UHHHHHHHH, octal, line continuation). An unknown escape keeps its backslash.
std::string unescaped(std::string_view inside);

}  // namespace duoka::data::jinja
