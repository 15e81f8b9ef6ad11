// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/transfer_watch.h"
#include "core/descriptor.h"
#include "duoka/comm/group.h"

namespace duoka::parallel {

/// What a span is about; -1 is not written.
struct TraceLabels {
  int64_t micro = -1;
  int64_t stage = -1;  ///< Of the pipeline.
  int64_t layer = -1;  ///< Of the chain held here, the objective last.
};

/// What one rank does when, for the viewers of Chrome's trace events (ui.perfetto.dev, chrome://tracing).
///
/// Each rank writes <folder>/trace-rank-<r>.json, which is valid JSON after each write: a run that is killed
/// leaves what it did up to about a second before. (Where a kill hits a write itself the end may be missing;
/// the viewers take that, too.) A write that fails ends the trace, not the run, and so does max_trace_bytes.
/// Spans are host time: on CUDA what launching took. Thread-safe.
///
/// What the rank does itself is one line of spans, which nest or follow each other; waiting for transfers is
/// part of it. The transfers have lines of their own, from where they begin to where their end was waited
/// for.
class TraceFile final : public comm::TransferWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `origin`: time 0 of the picture, the same on each rank. Replaces an earlier file. Throws SystemError.
  TraceFile(const std::filesystem::path& folder, int rank, std::chrono::system_clock::time_point origin);
  /// Writes what is left.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// Spans that end from now on belong to this update.
  void begin_update(int64_t update);
  /// A span of what the rank does. `name`: of few kinds, what differs belongs into `labels`.
  void add(std::string_view name, const TraceLabels& labels, Clock::time_point start,
           Clock::time_point end) noexcept;
  /// What goes on beside it; may overlap others.
  void add_beside(std::string_view name, const TraceLabels& labels, Clock::time_point start,
                  Clock::time_point end) noexcept;
  /// The transfer goes beside, and the wait into the line of what the rank does.
  void on_waited(comm::Operation operation, const std::string& axis, Clock::time_point start,
                 Clock::time_point wait) noexcept override;
  /// What transfers are about that are waited for meanwhile. Returns what it was before.
  TraceLabels set_transfer_labels(const TraceLabels& labels);
  /// Brings all spans that have ended to the file.
  void flush() noexcept;
  /// Why the trace ended early; "" while it goes on.
  std::string failure() const;

 private:
  /// When, in nanoseconds since the origin.
  struct Span {
    int64_t start, length;
  };
  Span span(Clock::time_point start, Clock::time_point end) const;
  void append(const std::string& event, Clock::time_point end);
  std::string label_text(const TraceLabels& labels) const;
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
  int64_t update_ = -1;
  int64_t num_beside_ = 0;
  TraceLabels transfer_labels_;
};

/// A span from here to the end of the scope. Without a file it costs a branch.
class [[nodiscard]] TraceSpan final {
 public:
  TraceSpan(TraceFile* file, const char* name, const TraceLabels& labels = {})
      : file_(file), name_(name), labels_(labels) {
    if (file_ != nullptr) start_ = TraceFile::Clock::now();
  }
  ~TraceSpan() {
    if (file_ != nullptr) file_->add(name_, labels_, start_, TraceFile::Clock::now());
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  TraceFile* file_;
  const char* name_;
  TraceLabels labels_;
  TraceFile::Clock::time_point start_;
};

/// Labels of the transfers that are waited for in this scope.
class [[nodiscard]] TransferLabels final {
 public:
  TransferLabels(TraceFile* file, const TraceLabels& labels) : file_(file) {
    if (file_ != nullptr) outer_ = file_->set_transfer_labels(labels);
  }
  ~TransferLabels() {
    if (file_ != nullptr) file_->set_transfer_labels(outer_);
  }
  TransferLabels(const TransferLabels&) = delete;
  TransferLabels& operator=(const TransferLabels&) = delete;

 private:
  TraceFile* file_;
  TraceLabels outer_;
};

/// Longest file a rank writes: viewers have trouble with more.
inline constexpr int64_t max_trace_bytes = int64_t{256} << 20;

/// Joins the ranks' files in `folder` to <folder>/trace.json and removes them; files of ranks that wrote to
/// another machine's disk stay there, complete by themselves. For one rank, when all have closed theirs.
/// Throws SystemError.
void merge_traces(const std::filesystem::path& folder);

/// A file for this rank of `group` in `folder`, which is made if it is not there, with the same time 0 on
/// each. Takes what a run that was killed has left of an earlier trace away. Collective; a rank whose file
/// cannot be written throws SystemError when all others are done.
std::unique_ptr<TraceFile> begin_trace(const std::filesystem::path& folder, const comm::Group& group);
/// When all have closed their files: merge_traces(). failure: what went wrong here, or "". Returns that of
/// all ranks, on rank 0. Collective.
std::string end_trace(const std::filesystem::path& folder, const std::string& failure,
                      const comm::Group& group);

}  // namespace duoka::parallel
