// SPDX-License-Identifier: Apache-2.0
#include <iomanip>
#include <sstream>
#include <utility>

#include <c10/util/Exception.h>

#include "comm/transfer_watch.h"
#include "comm/work.h"
#include "duoka/core/error.h"

namespace duoka::comm {

namespace {

thread_local TransferWatch* current_watch = nullptr;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::string transport_reason(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string line(torch != nullptr ? torch->what_without_backtrace() : error.what());
  line = line.substr(0, line.find('\n'));
  if (const size_t begin = line.find("[/"), end = line.find("] ", begin); end != std::string::npos)
    line.erase(begin, end + 2 - begin);
  return line;
}

void throw_failed(Operation operation, const std::string& axis, int rank, int size, double seconds,
                  const std::string& reason) {
  std::ostringstream message;
  message << operation_name(operation) << " over axis '" << axis << "' failed on rank " << rank << " of "
          << size << " after " << std::fixed << std::setprecision(1) << seconds << " s: " << reason
          << " (another rank has failed or is stuck; its own message tells why)";
  throw CommError(message.str());
}

Work::Work(std::unique_ptr<Transfer> transfer, Operation operation, const Group& group)
    : transfer_(std::move(transfer)),
      operation_(operation),
      axis_(group.axis()),
      rank_(group.rank()),
      size_(group.size()),
      start_(std::chrono::steady_clock::now()) {}

void TransferWatch::set_current(TransferWatch* watch) { current_watch = watch; }
TransferWatch* TransferWatch::current() { return current_watch; }

void Work::wait() {
  TransferWatch* const watch = TransferWatch::current();
  const auto wait_start = watch != nullptr ? TransferWatch::TimePoint::clock::now() : start_;
  try {
    transfer_->wait();
    if (watch != nullptr) watch->on_waited(operation_, axis_, start_, wait_start);
  } catch (const std::exception& error) {
    throw_failed(operation_, axis_, rank_, size_, seconds_since(start_), transport_reason(error));
  }
}

Pending::Pending() = default;
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;
Pending::~Pending() = default;
Pending::Pending(std::unique_ptr<Work> work) : work_(std::move(work)) {}

void Pending::wait() {
  // Taken out first: a second wait() has nothing to wait for, also after an error.
  if (const auto work = std::move(work_)) work->wait();
}

}  // namespace duoka::comm
