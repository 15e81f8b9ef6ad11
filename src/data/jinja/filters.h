// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "data/jinja/registry.h"

namespace duoka::data::jinja {

using NamedFilter = std::pair<std::string_view, Filter>;

std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> number_filters();
std::span<const NamedFilter> sequence_filters();
/// map, select, reject and the like, which take other filters, tests or attributes.
std::span<const NamedFilter> selection_filters();

/// item.path for "a.b.0"; undefined where a step is missing, or `otherwise` in the place of each missing
/// step.
Value attribute_path(Session& session, const Value& item, const Value& path,
                     const Value* otherwise = nullptr);

/// Whole number argument; throws Fault "what: …" for another type.
int64_t int_argument(std::string_view what, const Value& value);

}  // namespace duoka::data::jinja
