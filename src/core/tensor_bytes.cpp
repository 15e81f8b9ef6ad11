// SPDX-License-Identifier: Apache-2.0
#include "core/tensor_bytes.h"

#include <utility>

#include <ATen/ops/empty.h>

namespace duoka {

namespace {

at::Tensor as_bytes(const at::Tensor& like, c10::Storage storage) {
  const auto count = static_cast<int64_t>(storage.nbytes());
  return at::empty({0}, like.options().dtype(at::kByte)).set_(std::move(storage), 0, {count}, {1});
}

}  // namespace

at::Tensor bytes_of(const at::Tensor& tensor) { return as_bytes(tensor, tensor.storage()); }

at::Tensor take_bytes(const at::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const size_t count = storage->nbytes();
  at::DataPtr memory = storage->set_data_ptr(at::DataPtr(nullptr, tensor.device()));
  storage->set_nbytes(0);
  return as_bytes(tensor, c10::Storage(c10::Storage::use_byte_size_t(), count, std::move(memory)));
}

void give_bytes(const at::Tensor& tensor, at::Tensor bytes) {
  c10::StorageImpl* from = bytes.storage().unsafeGetStorageImpl();
  c10::StorageImpl* to = tensor.storage().unsafeGetStorageImpl();
  to->set_nbytes(from->nbytes());
  to->set_data_ptr_noswap(from->set_data_ptr(at::DataPtr(nullptr, bytes.device())));
  from->set_nbytes(0);
}

bool has_bytes(const at::Tensor& tensor) { return tensor.numel() == 0 || tensor.storage().nbytes() > 0; }

}  // namespace duoka
