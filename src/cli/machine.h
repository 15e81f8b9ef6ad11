// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace duoka::cli {

/// What this process may use of the machine.
struct Machine {
  int num_cores = 0;            ///< Cores of the machine.
  int allowed_cores = 0;        ///< By affinity.
  int usable_cores = 0;         ///< By affinity and the control group's limit of time.
  int64_t total_bytes = 0;      ///< Memory of the machine.
  int64_t available_bytes = 0;  ///< Memory to be had now, the control group's limit included.
  int64_t limit_bytes = 0;      ///< The control group's limit of memory; 0: none.
};

Machine look_at_machine();

/// Free bytes where `folder` is or would be made (its nearest existing parent); -1 when it cannot be asked.
int64_t free_disk_bytes(const std::string& folder);
/// Whether files can be made there.
bool is_writable(const std::string& folder);

/// Bytes of `field` ("MemAvailable") in the text of /proc/meminfo; 0 when it is not there.
int64_t meminfo_bytes(const std::string& meminfo, const std::string& field);

}  // namespace duoka::cli
