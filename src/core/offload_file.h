// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "core/descriptor.h"
#include "core/free_space.h"
#include "core/offload_store.h"

namespace duoka {

/// For CPU tensors: a file without a name, read and written by a thread.
class OffloadFile final : public OffloadStore, public std::enable_shared_from_this<OffloadFile> {
 public:
  explicit OffloadFile(const std::filesystem::path& folder);
  ~OffloadFile() override;

  std::unique_ptr<OffloadPlace> reserve(int64_t num_bytes) override;
  Traffic traffic() const override { return traffic_; }

 private:
  class Place;
  struct Job {
    bool is_write = false;
    at::Tensor bytes;  ///< Of a write only until it is done.
    int64_t offset = 0;
    bool is_done = false;
  };
  std::shared_ptr<Job> start(bool is_write, at::Tensor bytes, int64_t offset);
  void wait(const Job& job);
  void work();
  void copy(const Job& job) const;

  std::filesystem::path folder_;
  detail::Descriptor file_;
  FreeSpace space_{4096};  ///< Whole pages, so that no write has to read first.
  Traffic traffic_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;
  std::exception_ptr failure_;
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace duoka
