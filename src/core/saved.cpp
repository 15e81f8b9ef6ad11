// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/saved.h"

#include <unordered_set>

#include "duoka/core/error.h"

namespace duoka {

at::Tensor Saved::pop() {
  if (tensors_.empty()) throw StateError("Saved::pop() on an empty stack: backward does not mirror forward");
  at::Tensor top = std::move(tensors_.back());
  tensors_.pop_back();
  return top;
}

int64_t Saved::num_bytes() const {
  std::unordered_set<const void*> seen;
  int64_t bytes = 0;
  for (const auto& tensor : tensors_) {
    if (tensor.defined() && seen.insert(tensor.storage().unsafeGetStorageImpl()).second)
      bytes += static_cast<int64_t>(tensor.storage().nbytes());
  }
  return bytes;
}

}  // namespace duoka
