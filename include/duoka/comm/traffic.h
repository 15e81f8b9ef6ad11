// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace duoka::comm {

/// What a collective is counted under.
enum class Operation {
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  send,
  receive,
  barrier,
  text
};
inline constexpr int num_operations = 9;

/// "all_reduce", as messages name it.
const char* operation_name(Operation operation);

/// Calls and bytes of one axis, by operation, since its group was made. Shared by all copies of a Group.
///
/// Bytes are those of the buffer this rank hands in, whatever the algorithm sends for it:
/// all_reduce, broadcast, send nbytes(tensor); all_gather, reduce_scatter, all_to_all nbytes(in); receive and
/// barrier 0; text the characters given. A group of size 1 sends nothing and counts nothing. Thread-safe.
class Traffic final {
 public:
  struct Count {
    int64_t calls = 0;
    int64_t bytes = 0;
    bool operator==(const Count&) const = default;
  };

  void add(Operation operation, int64_t bytes);
  Count count(Operation operation) const;
  Count total() const;
  void reset();

 private:
  mutable std::mutex mutex_;
  std::array<Count, num_operations> counts_{};
};

}  // namespace duoka::comm
