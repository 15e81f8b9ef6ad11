// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/host_allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "core/block_arena.h"

namespace duoka {

namespace {

thread_local MemoryClass current_class = MemoryClass::other;

/// In front of a tensor's bytes.
struct alignas(64) Header {
  size_t bytes;     ///< As asked for.
  size_t capacity;  ///< Of the whole block, this header included.
  MemoryClass of;
};

/// Smaller tensors are left to malloc, which is good at them.
constexpr size_t smallest_block = size_t{1} << 19;

class Counts {
 public:
  void add(MemoryClass of, int64_t bytes) {
    of_class_[static_cast<size_t>(of)] += bytes;
    const int64_t all = all_ += bytes;
    int64_t peak = peak_;
    while (all > peak && !peak_.compare_exchange_weak(peak, all)) {
    }
  }
  int64_t live(MemoryClass of) const { return of_class_[static_cast<size_t>(of)]; }
  int64_t live() const { return all_; }
  int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = all_.load(); }

 private:
  std::array<std::atomic<int64_t>, num_memory_classes> of_class_{};
  std::atomic<int64_t> all_ = 0, peak_ = 0;
};

struct State {
  Counts counts;
  detail::BlockArena blocks;
};

/// Never destroyed: tensors with static storage are freed after everything else.
State& state() {
  static State* const one = new State;
  return *one;
}

void* allocate_block(size_t bytes) {
  size_t capacity = bytes + sizeof(Header);
  void* block = nullptr;
  if (capacity >= smallest_block) {
    block = state().blocks.take(capacity);
  } else if (::posix_memalign(&block, alignof(Header), capacity) != 0) {
    block = nullptr;
  }
  TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "no memory for a tensor of ", bytes,
                   " bytes; this process's tensors hold ", state().counts.live());
  state().counts.add(current_class, static_cast<int64_t>(bytes));
  return new (block) Header{bytes, capacity, current_class} + 1;
}

void free_block(void* data) {
  if (data == nullptr) return;
  Header* header = static_cast<Header*>(data) - 1;
  state().counts.add(header->of, -static_cast<int64_t>(header->bytes));
  if (header->capacity >= smallest_block)
    state().blocks.give(header, header->capacity);
  else
    std::free(header);
}

class HostAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : allocate_block(bytes);
    return {data, data, &free_block, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    std::memcpy(to, from, count);
  }
};

}  // namespace

MemoryScope::MemoryScope(MemoryClass of) : outer_(current_class) { current_class = of; }
MemoryScope::~MemoryScope() { current_class = outer_; }

namespace host_allocator {

void install() {
  static const bool once = [] {
    constexpr uint8_t above_libtorchs = 100;
    c10::SetCPUAllocator(new HostAllocator, above_libtorchs);
    return true;
  }();
  (void)once;
}

int64_t live_bytes(MemoryClass of) { return state().counts.live(of); }
int64_t live_bytes() { return state().counts.live(); }
int64_t peak_bytes() { return state().counts.peak(); }
void reset_peak() { state().counts.reset_peak(); }
int64_t cached_bytes() { return static_cast<int64_t>(state().blocks.cached_bytes()); }
void release_cache() { state().blocks.release(); }

}  // namespace host_allocator

}  // namespace duoka
