// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/jinja/arguments.h"
#include "data/jinja/session.h"
#include "data/jinja/value.h"

namespace duoka::data::jinja {

/// Python's `form % values`, with %s, %r, %d, %i, %f (also with a precision) and %%.
Text format_percent(Session& session, const Text& form, const Value& values);

/// Python's form.format(…), with {}, {0}, {name}, {{ and }}; no format specifications.
Text format_braces(Session& session, const Text& form, const Arguments& arguments);

}  // namespace duoka::data::jinja
