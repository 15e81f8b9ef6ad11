// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

#include "core/descriptor.h"

namespace duoka::parallel {

/// Lines of a rank in the picture. Spans of one lane nest or follow each other.
enum class TraceLane { compute, transfer, gradients, files };

/// What a span is about; -1 is not written.
struct TraceLabels {
  int64_t update = -1;
  int64_t micro = -1;
  int64_t stage = -1;
};

/// What one rank does when, for the viewers of Chrome's trace events (ui.perfetto.dev, chrome://tracing).
///
/// Each rank writes <folder>/trace-rank-<r>.json, which is valid JSON after each write: a run that is killed
/// leaves what it did up to about a second before. (Where a kill hits a write itself the end may be missing;
/// the viewers take that, too.) A write that fails ends the trace, not the run, and so does max_trace_bytes.
/// Spans are host time: on CUDA what launching took. Thread-safe.
class TraceFile final {
 public:
  using Clock = std::chrono::steady_clock;

  /// `origin`: time 0 of the picture, the same on each rank. Replaces an earlier file. Throws SystemError.
  TraceFile(const std::filesystem::path& folder, int rank, std::chrono::system_clock::time_point origin);
  /// Writes what is left.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// `name`: of few kinds, what differs belongs into `labels`.
  void add(const char* name, TraceLane lane, const TraceLabels& labels, Clock::time_point start,
           Clock::time_point end) noexcept;
  /// Brings all spans that have ended to the file.
  void flush() noexcept;
  /// Why the trace ended early; "" while it goes on.
  std::string failure() const;

 private:
  void append(const char* name, TraceLane lane, const TraceLabels& labels, int64_t start,
              int64_t nanoseconds);
  void write_events();
  bool write_at(std::string_view bytes, int64_t offset);

  std::filesystem::path path_;
  int rank_;
  detail::Descriptor file_;
  Clock::time_point origin_;
  mutable std::mutex mutex_;
  std::string events_;  // not yet in the file, each with ",\n" in front
  int64_t end_ = 0;     // where the next event goes: the place of the closing bracket
  Clock::time_point last_write_;
  std::string failure_;
};

/// A span from here to the end of the scope. Without a file it costs a branch.
class [[nodiscard]] TraceSpan final {
 public:
  TraceSpan(TraceFile* file, const char* name, TraceLane lane = TraceLane::compute, TraceLabels labels = {})
      : file_(file), name_(name), lane_(lane), labels_(labels) {
    if (file_ != nullptr) start_ = TraceFile::Clock::now();
  }
  ~TraceSpan() {
    if (file_ != nullptr) file_->add(name_, lane_, labels_, start_, TraceFile::Clock::now());
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  TraceFile* file_;
  const char* name_;
  TraceLane lane_;
  TraceLabels labels_;
  TraceFile::Clock::time_point start_;
};

/// Longest file a rank writes: viewers have trouble with more.
inline constexpr int64_t max_trace_bytes = int64_t{256} << 20;

/// Joins the ranks' files in `folder` to <folder>/trace.json and removes them; files of ranks that wrote to
/// another machine's disk stay there, complete by themselves. For one rank, when all have closed theirs.
/// Throws SystemError.
void merge_traces(const std::filesystem::path& folder);

}  // namespace duoka::parallel
