// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace duoka::comm {

/// Where a process is, and what is found there by one that can read its memory. Ranks send each other its
/// bytes.
struct NearIdentity {
  std::array<char, 40> machine{};  ///< The boot's id; all zero: not known.
  uint64_t pid_namespace = 0;      ///< Process ids mean the same in it. 0: not known.
  int64_t pid = 0;
  uint64_t nonce_address = 0;
  uint64_t nonce = 0;
};

/// Memory of the ranks of one machine, read where it lies (process_vm_readv(2), "cross-memory attach"): one
/// copy by the kernel, done by the reader, without sockets between. Ranks may also be threads of one process:
/// what a peer has given back to the system is an error there too, not a crash.
///
/// Who may read: the kernel asks for what it asks a debugger for: the same user, and no program that has made
/// itself undumpable. Where Yama's ptrace_scope is 1 a process may be read by its ancestors only, so each
/// rank names its parent (PR_SET_PTRACER), which lets that one and all that it has started read, and debug,
/// this process: the launcher and the other ranks, not every process of the user. A name that the program
/// itself gave before is replaced. Stricter scopes, some containers and kernels refuse; then nothing is near.
class NearMemory final {
 public:
  NearMemory();
  NearMemory(const NearMemory&) = delete;
  NearMemory& operator=(const NearMemory&) = delete;

  NearIdentity identity() const;
  /// Whether each of `ranks`, by rank, is in a process of this machine whose memory can be read: its nonce
  /// is. Remembers them for read().
  bool reaches(const std::vector<NearIdentity>& ranks);

  /// Copies `num_bytes` from `address` in the process of `rank` to `to`. Throws CommError with rank, process
  /// and the system's reason when the process has ended or has nothing there.
  void read(int rank, uint64_t address, void* to, int64_t num_bytes) const;

 private:
  uint64_t nonce_;
  std::vector<int64_t> pids_;
};

}  // namespace duoka::comm
