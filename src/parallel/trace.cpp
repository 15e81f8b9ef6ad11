// SPDX-License-Identifier: Apache-2.0
#include "parallel/trace.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include <ATen/ops/tensor.h>
#include <fcntl.h>
#include <unistd.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"

namespace duoka::parallel {

namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;

// A file is head, events with ",\n" between them, tail. A batch of events takes the place of the tail and
// brings a new one in the same write, so that the file is whole between two writes.
constexpr std::string_view head = "[\n";
constexpr std::string_view separator = ",\n";
constexpr std::string_view tail = "\n]\n";

constexpr std::string_view part_start = "trace-rank-";
constexpr std::string_view part_end = ".json";

constexpr size_t batch_bytes = size_t{64} << 10;
constexpr auto batch_time = std::chrono::seconds(1);

/// Microseconds with all digits: as a double the viewer would round them.
std::string microseconds_text(int64_t count) {
  const std::string digits = std::to_string(count % 1000);
  return text(count / 1000, ".", std::string(3 - digits.size(), '0'), digits);
}

std::string names_of(int rank) {
  const std::string id = text(R"(,"pid":)", rank, R"(,"tid":0,"args":{)");
  return text(R"({"ph":"M","name":"process_name")", id, R"("name":"rank )", rank, R"("}})", separator,
              R"({"ph":"M","name":"process_sort_index")", id, R"("sort_index":)", rank, "}}", separator,
              R"({"ph":"M","name":"thread_name")", id, R"("name":"work"}})");
}

/// The ranks' files in `folder`, by name.
std::vector<fs::path> parts_in(const fs::path& folder) {
  std::vector<fs::path> parts;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(part_start) && name.ends_with(part_end)) parts.push_back(entry->path());
  }
  if (error) detail::throw_system_error("list", folder, error.value());
  std::ranges::sort(parts);
  return parts;
}

}  // namespace

TraceFile::TraceFile(const fs::path& folder, int rank, std::chrono::system_clock::time_point origin)
    : path_(folder / text(part_start, rank, part_end)),
      rank_(rank),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)),
      // From here on the clock that nobody sets.
      origin_(Clock::now() -
              std::chrono::duration_cast<Clock::duration>(std::chrono::system_clock::now() - origin)),
      last_write_(Clock::now()) {
  if (file_.get() < 0) detail::throw_system_error("write", path_);
  const std::string start = text(head, names_of(rank));
  if (!write_at(start + std::string(tail), 0)) detail::throw_system_error("write", path_);
  end_ = static_cast<int64_t>(start.size());
}

TraceFile::~TraceFile() { flush(); }

void TraceFile::begin_update(int64_t update) {
  const std::lock_guard lock(mutex_);
  update_ = update;
}

TraceLabels TraceFile::set_transfer_labels(const TraceLabels& labels) {
  const std::lock_guard lock(mutex_);
  return std::exchange(transfer_labels_, labels);
}

TraceFile::Span TraceFile::span(Clock::time_point start, Clock::time_point end) const {
  const auto since = std::chrono::duration_cast<nanoseconds>(start - origin_).count();
  return {std::max<int64_t>(since, 0), std::chrono::duration_cast<nanoseconds>(end - start).count()};
}

void TraceFile::add(std::string_view name, const TraceLabels& labels, Clock::time_point start,
                    Clock::time_point end) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const Span when = span(start, end);
    append(text(R"({"ph":"X","name":")", name, R"(","pid":)", rank_, R"(,"tid":0,"ts":)",
                microseconds_text(when.start), R"(,"dur":)", microseconds_text(when.length),
                label_text(labels), "}"),
           end);
  } catch (...) {
    // No memory for an event: it is missing.
  }
}

void TraceFile::add_beside(std::string_view name, const TraceLabels& labels, Clock::time_point start,
                           Clock::time_point end) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const Span when = span(start, end);
    const std::string what = text(R"(","cat":"beside","name":")", name, R"(","pid":)", rank_,
                                  R"(,"tid":0,"id2":{"local":")", num_beside_++, R"("},"ts":)");
    append(text(R"({"ph":"b)", what, microseconds_text(when.start), label_text(labels), "}", separator,
                R"({"ph":"e)", what, microseconds_text(when.start + when.length), "}"),
           end);
  } catch (...) {
  }
}

void TraceFile::on_waited(comm::Operation operation, const std::string& axis, Clock::time_point start,
                          Clock::time_point wait) noexcept {
  try {
    const auto now = Clock::now();
    const std::string name = text(comm::operation_name(operation), ", ", axis);
    const TraceLabels labels = [this] {
      const std::lock_guard lock(mutex_);
      return transfer_labels_;
    }();
    add_beside(name, labels, start, now);
    add(text("wait for ", name), labels, wait, now);
  } catch (...) {
  }
}

/// Called with the lock held, as append().
std::string TraceFile::label_text(const TraceLabels& labels) const {
  std::string all;
  const std::array<std::pair<const char*, int64_t>, 4> entries = {
      {{"update", update_}, {"micro", labels.micro}, {"stage", labels.stage}, {"layer", labels.layer}}};
  for (const auto& [key, value] : entries)
    if (value >= 0) all += text(all.empty() ? "" : ",", '"', key, "\":", value);
  return all.empty() ? "" : text(R"(,"args":{)", all, "}");
}

void TraceFile::append(const std::string& event, Clock::time_point end) {
  if (!failure_.empty()) return;
  events_ += text(separator, event);
  if (events_.size() >= batch_bytes || end - last_write_ >= batch_time) write_events();
}

void TraceFile::flush() noexcept {
  try {
    const std::lock_guard lock(mutex_);
    write_events();
  } catch (...) {
  }
}

std::string TraceFile::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

/// Called with the lock held.
void TraceFile::write_events() {
  last_write_ = Clock::now();
  if (events_.empty() || !failure_.empty()) return;
  const auto size = static_cast<int64_t>(events_.size());
  if (end_ + size > max_trace_bytes) {
    failure_ = text("the trace ", path_.string(), " has ", bytes_text(end_), "; it ends here");
  } else if (write_at(events_ + std::string(tail), end_)) {
    end_ += size;
  } else {
    failure_ = text("cannot write the trace ", path_.string(), ": ", std::strerror(errno), "; it ends here");
    // What was written in part is taken back; where not even that goes, the viewers still take the file.
    const bool is_whole =
        write_at(tail, end_) && ::ftruncate(file_.get(), end_ + static_cast<int64_t>(tail.size())) == 0;
    if (!is_whole) failure_ += " in the middle of an event";
  }
  events_.clear();
}

/// False, with errno, when not all was written.
bool TraceFile::write_at(std::string_view bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file_.get(), bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += count;
  }
  return true;
}

void merge_traces(const fs::path& folder) {
  AtomicFile merged(folder / "trace.json");
  merged.write(head);
  std::vector<fs::path> done;
  for (const fs::path& part : parts_in(folder)) {
    const MappedFile file = MappedFile::open(part);
    std::string_view events = file.text();
    // One that a full disk cut in the middle would spoil the others; it stays where it is.
    if (!events.starts_with(head) || !events.ends_with(tail)) continue;
    events.remove_prefix(head.size());
    events.remove_suffix(tail.size());
    if (!done.empty()) merged.write(separator);
    merged.write(events);
    done.push_back(part);
  }
  merged.write(tail);
  merged.commit();
  std::error_code ignored;  // what is left only takes space
  for (const fs::path& part : done) fs::remove(part, ignored);
}

namespace {
/// What cannot be removed, or looked at, only takes space.
void remove_parts(const fs::path& folder) noexcept {
  try {
    for (const fs::path& part : parts_in(folder)) fs::remove(part);
  } catch (const std::exception&) {
  }
}
}  // namespace

std::unique_ptr<TraceFile> begin_trace(const fs::path& folder, const comm::Group& group) {
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  if (group.rank() == 0) remove_parts(folder);
  using std::chrono::microseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  at::Tensor origin = at::tensor({std::chrono::duration_cast<microseconds>(now).count()}, at::kLong);
  comm::broadcast(origin, 0, group);
  return std::make_unique<TraceFile>(
      folder, group.rank(), std::chrono::system_clock::time_point(microseconds(origin.item<int64_t>())));
}

std::string end_trace(const fs::path& folder, const std::string& failure, const comm::Group& group) {
  std::vector<std::string> failures = comm::all_gather_text(failure, group);
  if (group.rank() != 0) return "";
  try {
    merge_traces(folder);
  } catch (const SystemError& error) {
    failures.emplace_back(error.what());
  }
  std::erase(failures, "");
  return join(failures, "; ");
}

}  // namespace duoka::parallel
