// SPDX-License-Identifier: Apache-2.0
#include "comm/near_memory.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <random>
#include <string>
#include <system_error>

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

uint64_t random_word() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

/// First word of a small file of the kernel's; "" where there is none.
std::string word_of(const char* path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

void let_ranks_read() {
  if (word_of("/proc/sys/kernel/yama/ptrace_scope") != "1") return;
  prctl(PR_SET_PTRACER, getppid(), 0, 0, 0);  // refused: the peers cannot read the nonce
}

/// How many bytes were copied, up to the first that cannot be; -1 when that is the first, errno says why.
ssize_t copy(int64_t pid, uint64_t address, void* to, int64_t num_bytes) {
  const iovec here{to, static_cast<size_t>(num_bytes)};
  // An address of the other process, which means nothing in this one.
  const iovec there{reinterpret_cast<void*>(address), static_cast<size_t>(num_bytes)};  // NOLINT
  return process_vm_readv(static_cast<pid_t>(pid), &here, 1, &there, 1, 0);
}

}  // namespace

NearMemory::NearMemory() : nonce_(random_word()) { let_ranks_read(); }

NearIdentity NearMemory::identity() const {
  NearIdentity own;
  const std::string boot = word_of("/proc/sys/kernel/random/boot_id");
  std::copy_n(boot.begin(), std::min(boot.size(), own.machine.size()), own.machine.begin());
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) == 0) own.pid_namespace = space.st_ino;
  own.pid = getpid();
  own.nonce_address = reinterpret_cast<uint64_t>(&nonce_);
  own.nonce = nonce_;
  return own;
}

bool NearMemory::reaches(const std::vector<NearIdentity>& ranks) {
  const NearIdentity own = identity();
  if (own.machine.front() == 0 || own.pid_namespace == 0) return false;
  pids_.clear();
  for (const NearIdentity& rank : ranks) {
    if (rank.machine != own.machine || rank.pid_namespace != own.pid_namespace) return false;
    uint64_t found = 0;
    constexpr auto size = static_cast<int64_t>(sizeof found);
    if (copy(rank.pid, rank.nonce_address, &found, size) != size || found != rank.nonce) return false;
    pids_.push_back(rank.pid);
  }
  return true;
}

void NearMemory::read(int rank, uint64_t address, void* to, int64_t num_bytes) const {
  const int64_t pid = pids_[static_cast<size_t>(rank)];
  auto* next = static_cast<char*>(to);
  while (num_bytes > 0) {
    const ssize_t done = copy(pid, address, next, num_bytes);
    if (done <= 0) {
      const std::string why =
          done == 0 || errno == ESRCH ? "it has ended" : std::generic_category().message(errno);
      throw CommError(text("the memory of rank ", rank, " (process ", pid, ") cannot be read: ", why));
    }
    address += static_cast<uint64_t>(done);
    next += done;
    num_bytes -= done;
  }
}

}  // namespace duoka::comm
