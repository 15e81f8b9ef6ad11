// SPDX-License-Identifier: Apache-2.0
#include "duoka/comm/traffic.h"

namespace duoka::comm {

const char* operation_name(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::broadcast:
      return "broadcast";
    case Operation::all_gather:
      return "all_gather";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::all_to_all:
      return "all_to_all";
    case Operation::send:
      return "send";
    case Operation::receive:
      return "receive";
    case Operation::barrier:
      return "barrier";
    case Operation::text:
      return "text";
  }
  return "unknown";
}

void Traffic::add(Operation operation, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Count& count = counts_[static_cast<size_t>(operation)];
  count.calls += 1;
  count.bytes += bytes;
}

Traffic::Count Traffic::count(Operation operation) const {
  const std::lock_guard lock(mutex_);
  return counts_[static_cast<size_t>(operation)];
}

Traffic::Count Traffic::total() const {
  const std::lock_guard lock(mutex_);
  Count sum;
  for (const Count& count : counts_) {
    sum.calls += count.calls;
    sum.bytes += count.bytes;
  }
  return sum;
}

void Traffic::reset() {
  const std::lock_guard lock(mutex_);
  counts_ = {};
}

}  // namespace duoka::comm
