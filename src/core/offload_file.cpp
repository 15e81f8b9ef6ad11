// SPDX-License-Identifier: Apache-2.0
#include "core/offload_file.h"

#include <csignal>
#include <system_error>
#include <utility>

#include <ATen/ops/empty.h>
#include <pthread.h>
#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka {

namespace {

namespace fs = std::filesystem;
using detail::Descriptor;
using detail::throw_system_error;

Descriptor open_in(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_system_error("make the folder for offloaded tensors", folder, error.value());
  Descriptor file = detail::open_nameless(folder);
  if (file.get() < 0) throw_system_error("make a file for offloaded tensors in", folder);
  return file;
}

}  // namespace

class OffloadFile::Place final : public OffloadPlace {
 public:
  Place(std::shared_ptr<OffloadFile> store, int64_t num_bytes)
      : store_(std::move(store)), num_bytes_(num_bytes), offset_(store_->space_.take(num_bytes).value()) {}
  // Jobs are done in order: one that still goes here is over before another's may use the space.
  ~Place() override { store_->space_.give_back(offset_, num_bytes_); }

  void put(at::Tensor bytes) override {
    if (bytes.numel() != num_bytes_ || !bytes.is_contiguous())
      throw StateError(text("offload of ", bytes.numel(), " bytes to a place of ", num_bytes_));
    read_.reset();
    store_->traffic_.bytes_out += num_bytes_;
    write_ = store_->start(true, std::move(bytes), offset_);
  }
  void wait_until_out() override {
    if (const auto write = std::exchange(write_, nullptr)) store_->wait(*write);
  }
  void fetch() override {
    if (read_) return;
    wait_until_out();  // so that it is not in memory twice
    store_->traffic_.bytes_in += num_bytes_;
    read_ = store_->start(false, at::empty({num_bytes_}, at::kByte), offset_);
  }
  at::Tensor take() override {
    fetch();
    const auto read = std::exchange(read_, nullptr);
    store_->wait(*read);
    return std::move(read->bytes);
  }

 private:
  std::shared_ptr<OffloadFile> store_;
  int64_t num_bytes_, offset_;
  std::shared_ptr<Job> write_, read_;
};

OffloadFile::OffloadFile(const fs::path& folder) : folder_(folder), file_(open_in(folder)) {
  // A thread starts with the signals of its maker. The process's are for its other threads, and that of a
  // file that grows too large (ulimit -f), which comes to the writing thread, is an error of the write like
  // others.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

OffloadFile::~OffloadFile() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::unique_ptr<OffloadPlace> OffloadFile::reserve(int64_t num_bytes) {
  return std::make_unique<Place>(shared_from_this(), num_bytes);
}

std::shared_ptr<OffloadFile::Job> OffloadFile::start(bool is_write, at::Tensor bytes, int64_t offset) {
  auto job = std::make_shared<Job>(Job{is_write, std::move(bytes), offset});
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    jobs_.push_back(job);
  }
  changed_.notify_all();
  return job;
}

void OffloadFile::wait(const Job& job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return job.is_done || failure_; });
  if (!job.is_done) std::rethrow_exception(failure_);
}

void OffloadFile::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_closing_ || (!failure_ && !jobs_.empty()); });
    if (is_closing_) return;
    const std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      copy(*job);
    } catch (...) {
      failure = std::current_exception();
    }
    if (job->is_write) job->bytes.reset();
    lock.lock();
    failure_ = failure;
    job->is_done = !failure;
    if (failure_) jobs_.clear();
    changed_.notify_all();
  }
}

void OffloadFile::copy(const Job& job) const {
  auto* at = static_cast<std::byte*>(job.bytes.data_ptr());
  auto left = static_cast<size_t>(job.bytes.numel());
  off_t offset = job.offset;
  while (left > 0) {
    const ssize_t count =
        job.is_write ? ::pwrite(file_.get(), at, left, offset) : ::pread(file_.get(), at, left, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw_system_error(job.is_write ? "write offloaded tensors in" : "read offloaded tensors in", folder_);
    if (count == 0)
      throw SystemError(text("the file of offloaded tensors in ", folder_.string(), " ends early"));
    at += count;
    left -= static_cast<size_t>(count);
    offset += count;
  }
}

}  // namespace duoka
