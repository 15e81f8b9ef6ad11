// SPDX-License-Identifier: Apache-2.0
#include "parallel/activation_offload.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>

#include "core/tensor_bytes.h"
#include "duoka/core/host_allocator.h"
#include "parallel/walk.h"

namespace duoka::parallel {

namespace {

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

/// All of a trace in the order of its making; the trace is then empty.
std::vector<at::Tensor> emptied(Trace& trace) {
  std::vector<at::Tensor> tensors;
  while (!trace.saved.is_empty()) tensors.push_back(trace.saved.pop());
  tensors.push_back(std::exchange(trace.input, at::Tensor()));
  std::ranges::reverse(tensors);
  return tensors;
}

at::Tensor restored(const AwayTensor& from) {
  if (!from.memory) return from.tensor;
  AwayMemory& memory = *from.memory;
  if (!memory.bytes.defined()) memory.bytes = memory.place->take();
  return at::empty({0}, from.options).set_(memory.bytes.storage(), from.offset, from.sizes, from.strides);
}

}  // namespace

ActivationOffload::ActivationOffload(std::shared_ptr<OffloadStore> store, const Chain& chain)
    : store_(std::move(store)) {
  for (const Parameter* parameter : chain.parameters()) weights_.insert(storage_of(parameter->value));
}

bool ActivationOffload::stays(const at::Tensor& tensor,
                              const std::unordered_set<const c10::StorageImpl*>& held) const {
  const c10::StorageImpl* storage = storage_of(tensor);
  return storage == nullptr || storage->nbytes() < smallest_offloaded_bytes || weights_.contains(storage) ||
         held.contains(storage);
}

std::shared_ptr<AwayMemory> ActivationOffload::away(const at::Tensor& tensor) {
  std::weak_ptr<AwayMemory>& known = known_[storage_of(tensor)];
  if (auto memory = known.lock()) return memory;
  auto memory =
      std::make_shared<AwayMemory>(tensor.storage().getWeakStorageImpl(),
                                   store_->reserve(static_cast<int64_t>(tensor.storage().nbytes())));
  memory->place->put(bytes_of(tensor));
  known = memory;
  leaving_.push_back(memory);
  return memory;
}

void ActivationOffload::put(Trace& trace, const Stream& stream) {
  const auto before = std::exchange(leaving_, {});
  std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
  const std::vector<at::Tensor> tensors = emptied(trace);
  std::unordered_set<const c10::StorageImpl*> held;
  for (const at::Tensor* tensor :
       {&stream.ids, &stream.targets, &stream.positions, &stream.trained, &stream.segments})
    held.insert(storage_of(*tensor));
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined() && tensor.requires_grad()) held.insert(storage_of(tensor));
  for (const at::Tensor& tensor : tensors)
    if (stays(tensor, held))
      trace.away.push_back({tensor, nullptr, {}, {}, {}, 0});
    else
      trace.away.push_back({{},
                            away(tensor),
                            tensor.options(),
                            tensor.sizes().vec(),
                            tensor.strides().vec(),
                            tensor.storage_offset()});
  for (const auto& memory : before)
    if (const auto leaving = memory.lock()) leaving->place->wait_until_out();
}

void ActivationOffload::fetch(Trace& trace) const {
  const MemoryScope scope(MemoryClass::activations);
  for (const AwayTensor& tensor : trace.away)
    if (tensor.memory && !tensor.memory->bytes.defined()) tensor.memory->place->fetch();
}

void ActivationOffload::take(Trace& trace) const {
  if (trace.away.empty()) return;
  const MemoryScope scope(MemoryClass::activations);
  const auto away = std::exchange(trace.away, {});
  trace.input = restored(away.front());
  for (size_t i = 1; i < away.size(); ++i) trace.saved.push(restored(away[i]));
}

}  // namespace duoka::parallel
