// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace duoka {

/// What a tensor in memory is for.
enum class MemoryClass { other, parameters, gradients, optimizer, activations };
inline constexpr int num_memory_classes = 5;

/// Tensors that this thread allocates until the end of the scope are counted as of this class.
class [[nodiscard]] MemoryScope final {
 public:
  explicit MemoryScope(MemoryClass of);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryClass outer_;
};

/// The memory of CPU tensors, counted and used again.
///
/// libtorch gives each tensor's memory back to the system, which must then clear pages for the next one: a
/// third of the time of an update on CPU ranks that reduce large gradients. Here the pages of freed tensors
/// are kept for the next ones, while what is kept and what lives is together no more than what once lived:
/// the cache does not raise a process's peak. (Large tensors take whole blocks of 64 KiB; malloc has small
/// ones.)
namespace host_allocator {

/// Makes it the allocator of all CPU tensors of this process, for good. Tensors that exist stay as they are.
/// For the start of main(); a second call does nothing. Without it libtorch's own is in use and the counts
/// are 0.
void install();

/// Bytes of living tensors, as asked for: of one class, of all.
int64_t live_bytes(MemoryClass of);
int64_t live_bytes();
/// The most there ever were since the start or reset_peak(), of all classes at a time.
int64_t peak_bytes();
void reset_peak();
/// Bytes of pages kept that no tensor is in.
int64_t cached_bytes();
/// Gives them back to the system.
void release_cache();

}  // namespace host_allocator

}  // namespace duoka
