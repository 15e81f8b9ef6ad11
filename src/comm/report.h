// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace duoka::comm {

/// What a failed rank tells the launcher, through the pipe whose number is in DUOKA_REPORT_FD.
struct Report {
  /// When it failed, on the steady clock that all processes of a machine share.
  int64_t nanoseconds = 0;
  /// The failure is about a peer: more likely the echo of another rank's failure than the first.
  bool is_echo = false;
  std::string block;
};

/// At most 60 KiB, a pipe's worth: longer blocks are cut, so that writing never waits for the reader.
std::string to_wire(const Report& report);
/// std::nullopt when `bytes` are not a whole report.
std::optional<Report> from_wire(const std::string& bytes);

}  // namespace duoka::comm
