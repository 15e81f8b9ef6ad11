// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <string>

#include "comm/wires.h"
#include "duoka/comm/collectives.h"

namespace duoka::comm {

/// A transfer with what an error about it has to say.
class Work final {
 public:
  Work(std::unique_ptr<Transfer> transfer, Operation operation, const Group& group);
  /// Throws CommError.
  void wait();

 private:
  std::unique_ptr<Transfer> transfer_;
  Operation operation_;
  std::string axis_;
  int rank_;
  int size_;
  std::chrono::steady_clock::time_point start_;
};

/// The first line of a transport's message, without the places in its sources that it names
/// ("[/…/pair.cc:551] Connection closed by peer").
std::string transport_reason(const std::exception& error);

/// The CommError for `reason`, a transport's words.
[[noreturn]] void throw_failed(Operation operation, const std::string& axis, int rank, int size,
                               double seconds, const std::string& reason);

}  // namespace duoka::comm
