// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/pack.h"

namespace duoka::card {

/// A width known to the compiler.
template <int width>
using Width = std::integral_constant<int, width>;

template <class... Pointer>
bool are_aligned(const Pointer*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % card_access_bytes == 0) && ...);
}

/// Calls body(Width) with the full width of T, where rows of `num_columns` numbers from aligned pointers on
/// allow it, else with width 1.
template <class T, class Body>
void with_width(int64_t num_columns, bool is_aligned, Body body) {
  if (is_aligned && num_columns % full_width<T> == 0)
    body(Width<full_width<T>>());
  else
    body(Width<1>());
}

}  // namespace duoka::card
