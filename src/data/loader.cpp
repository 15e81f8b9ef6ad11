// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/loader.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/data/sampler.h"

namespace duoka::data {

uint64_t row_key(uint64_t seed, int64_t epoch, int64_t row_id) {
  return mix_seeds(mix_seeds(seed, static_cast<uint64_t>(SeedUse::row_key)), static_cast<uint64_t>(epoch),
                   static_cast<uint64_t>(row_id));
}

namespace {

/// The micro-stream of `rows` (indices into `set`), on the CPU.
Stream stream_of(const RowSet& set, std::span<const int64_t> rows, uint64_t seed, int64_t epoch) {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
  std::vector<size_t> begins{0};
  for (const int64_t row : rows) {
    set.read(row, ids, labels);
    begins.push_back(ids.size());
  }
  std::vector<RowView> views;
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t length = begins[i + 1] - begins[i];
    views.push_back({std::span(ids).subspan(begins[i], length), std::span(labels).subspan(begins[i], length),
                     row_key(seed, epoch, set.id(rows[i]))});
  }
  return make_stream(views);
}

void move_to(Stream& stream, at::Device device) {
  for (at::Tensor* tensor :
       {&stream.ids, &stream.targets, &stream.positions, &stream.trained, &stream.segments})
    *tensor = tensor->to(device);
}

}  // namespace

/// Makes updates, in its own thread ahead of the caller's wish.
class Loader::Worker {
 public:
  Worker(const RowSet& rows, const LoaderOptions& options) : rows_(rows), options_(options) {
    if (options.num_ranks < 1 || options.rank < 0 || options.rank >= options.num_ranks)
      throw StateError(text("loader: rank ", options.rank, " of ", options.num_ranks));
    if (rows.size() == 0) throw StateError("loader: no rows");
    // The options are checked here rather than in the thread.
    plan(0);
    thread_ = std::thread([this] { work(); });
  }

  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::shared_ptr<const EpochPlan> plan(int64_t epoch) {
    const std::lock_guard lock(plans_mutex_);
    for (const Planned& planned : plans_)
      if (planned.plan != nullptr && planned.epoch == epoch) return planned.plan;
    // This epoch and the next are in use at a time.
    Planned& oldest = plans_[static_cast<size_t>(next_plan_++ % 2)];
    oldest = {epoch, std::make_shared<const EpochPlan>(plan_epoch(rows_.lengths(), options_.pack, epoch))};
    return oldest.plan;
  }

  Update get(int64_t epoch, int64_t index) {
    const Position wanted{epoch, index};
    std::optional<Update> update = take_ready(wanted);
    if (!update) update = make(wanted);
    const bool is_last = index + 1 == plan(epoch)->num_updates();
    ask_for(is_last ? Position{epoch + 1, 0} : Position{epoch, index + 1});
    for (Stream& stream : update->streams) move_to(stream, options_.device);
    return *std::move(update);
  }

 private:
  struct Position {
    int64_t epoch = 0;
    int64_t index = 0;
    bool operator==(const Position&) const = default;
  };
  struct Planned {
    int64_t epoch = 0;
    std::shared_ptr<const EpochPlan> plan;
  };

  Update make(const Position& position) {
    const auto planned = plan(position.epoch);
    if (position.epoch < 0 || position.index < 0 || position.index >= planned->num_updates())
      throw StateError(text("loader: update ", position.index, " of epoch ", position.epoch,
                            "; the epoch has ", planned->num_updates()));
    Update update;
    update.epoch = position.epoch;
    update.index = position.index;
    update.num_trained = planned->num_trained(position.index);
    for (const StreamRows& rows :
         planned->update_of_rank(position.index, options_.rank, options_.num_ranks)) {
      update.streams.push_back(stream_of(rows_, rows, options_.pack.seed, position.epoch));
      for (const int64_t row : rows) update.row_ids.push_back(rows_.id(row));
    }
    return update;
  }

  /// What the thread has made, when it is what is wanted. Waits for a piece of work under way.
  std::optional<Update> take_ready(const Position& wanted) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !asked_; });
    std::optional<Update> ready = std::exchange(ready_, std::nullopt);
    const std::exception_ptr error = std::exchange(error_, nullptr);
    if (made_ != wanted) return std::nullopt;
    if (error) std::rethrow_exception(error);
    return ready;
  }

  void ask_for(const Position& position) {
    {
      const std::lock_guard lock(mutex_);
      asked_ = position;
    }
    changed_.notify_all();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return is_stopping_ || asked_; });
      if (is_stopping_) return;
      const Position position = *asked_;
      lock.unlock();
      std::optional<Update> update;
      std::exception_ptr error;
      try {
        update = make(position);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      made_ = position;
      ready_ = std::move(update);
      error_ = error;
      asked_.reset();
      changed_.notify_all();
    }
  }

  const RowSet& rows_;
  const LoaderOptions options_;
  std::mutex plans_mutex_;
  Planned plans_[2];
  int64_t next_plan_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Position> asked_;  ///< Being made, or to be made next.
  std::optional<Position> made_;   ///< What ready_ or error_ belongs to.
  std::optional<Update> ready_;
  std::exception_ptr error_;
  bool is_stopping_ = false;
  std::thread thread_;
};

Loader::Loader(const RowSet& rows, const LoaderOptions& options)
    : worker_(std::make_unique<Worker>(rows, options)) {}
Loader::~Loader() = default;

int64_t Loader::num_updates(int64_t epoch) { return plan(epoch)->num_updates(); }
std::shared_ptr<const EpochPlan> Loader::plan(int64_t epoch) { return worker_->plan(epoch); }
Update Loader::get(int64_t epoch, int64_t index) { return worker_->get(epoch, index); }

}  // namespace duoka::data
