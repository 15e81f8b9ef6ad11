// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <xxhash.h>

namespace duoka {

/// XXH3 of 128 bits over bytes that come in pieces; where they were cut does not matter.
class ContentHash final {
 public:
  ContentHash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }

  void add(const void* bytes, size_t count) { XXH3_128bits_update(state_.get(), bytes, count); }
  /// Low word, high word.
  std::array<uint64_t, 2> value() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {hash.low64, hash.high64};
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace duoka
