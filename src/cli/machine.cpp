// SPDX-License-Identifier: Apache-2.0
#include "cli/machine.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "comm/cores.h"

namespace duoka::cli {

namespace {

namespace fs = std::filesystem;

std::string contents(const char* path) {
  std::ifstream in(path);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

/// A number that is the whole of a file; 0 when it is not one ("max").
int64_t number_in(const char* path) {
  int64_t number = 0;
  std::ifstream(path) >> number;
  return number;
}

/// Version 2's file, else version 1's.
int64_t group_number(const char* v2, const char* v1) {
  const int64_t number = number_in(v2);
  return number > 0 ? number : number_in(v1);
}

/// The nearest parent of `folder` that is there.
fs::path existing(const std::string& folder) {
  std::error_code error;
  fs::path path = fs::absolute(folder.empty() ? "." : folder, error);
  while (!fs::exists(path, error) && path.has_parent_path() && path != path.root_path())
    path = path.parent_path();
  return path;
}

}  // namespace

int64_t meminfo_bytes(const std::string& meminfo, const std::string& field) {
  std::istringstream in(meminfo);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(field + ":")) continue;
    int64_t kibibytes = 0;
    std::istringstream(line.substr(field.size() + 1)) >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

Machine look_at_machine() {
  Machine out;
  out.num_cores = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  out.allowed_cores = static_cast<int>(comm::allowed_cores().size());
  out.usable_cores = comm::usable_cores();
  const std::string meminfo = contents("/proc/meminfo");
  out.total_bytes = meminfo_bytes(meminfo, "MemTotal");
  out.available_bytes = meminfo_bytes(meminfo, "MemAvailable");
  const int64_t limit =
      group_number("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes");
  // Version 1 says "no limit" by a number beyond any memory.
  if (limit > 0 && limit < out.total_bytes) {
    out.limit_bytes = limit;
    const int64_t used =
        group_number("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes");
    out.available_bytes = std::min(out.available_bytes, std::max<int64_t>(0, limit - used));
  }
  return out;
}

int64_t free_disk_bytes(const std::string& folder) {
  std::error_code error;
  const auto space = fs::space(existing(folder), error);
  return error ? -1 : static_cast<int64_t>(space.available);
}

bool is_writable(const std::string& folder) {
  // Tried, not asked: rights alone do not tell of read-only file systems, nor of what root may not do.
  std::string name = (existing(folder) / ".duoka-doctor-XXXXXX").string();
  const int fd = ::mkstemp(name.data());
  if (fd < 0) return false;
  ::close(fd);
  ::unlink(name.c_str());
  return true;
}

}  // namespace duoka::cli
