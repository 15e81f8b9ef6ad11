// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "data/jinja/session.h"
#include "data/jinja/value.h"

namespace duoka::data::jinja {

/// Python's str(): what {{ value }} prints.
Text to_text(Session& session, const Value& value);
/// Python's repr(), as used inside lists and dicts.
Text to_repr(Session& session, const Value& value);
/// Python's repr of a float: the shortest digits that read back as the same number.
std::string float_text(double value);

/// As Python's json.dumps.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  ///< What one level is indented by; none: all on one line.
  Text item_separator{std::string(", ")};
  Text key_separator{std::string(": ")};
  bool sort_keys = false;
};
Text to_json(Session& session, const Value& value, const JsonStyle& style);

}  // namespace duoka::data::jinja
