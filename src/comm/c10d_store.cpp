// SPDX-License-Identifier: Apache-2.0
#include "comm/c10d_store.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <thread>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

using std::chrono::milliseconds;

/// Gives trouble with the store the words of a rank that has lost it.
template <class Body>
auto guarded(Body&& body) {
  try {
    return body();
  } catch (const std::exception&) {
    throw CommError("lost the connection to rank 0 while the ranks were joining; its own message tells why");
  }
}

/// A TCPStore's first exchange of words has no time-out of its own: with a port of some other program it
/// would wait for ever. So that happens on another thread, which is left behind in this case.
StorePtr open_tcp_store(const std::string& host, const c10d::TCPStoreOptions& options) {
  silence_c10d();
  auto opened = std::make_shared<std::promise<StorePtr>>();
  auto store = opened->get_future();
  std::thread([opened, host, options] {
    try {
      opened->set_value(c10::make_intrusive<c10d::TCPStore>(host, options));
    } catch (...) {
      opened->set_exception(std::current_exception());
    }
  }).detach();
  try {
    if (store.wait_for(options.timeout) == std::future_status::ready) return store.get();
  } catch (const std::exception&) {
    // c10d's words tell of bytes and frames; those below hold for all of them.
  }
  throw CommError(text("what listens at ", host, ":", options.port, " does not answer as rank 0 of this job;",
                       " correct MASTER_ADDR and MASTER_PORT"));
}

}  // namespace

std::string C10dStore::set_once(const std::string& key, const std::string& value) {
  return guarded([&] { return store_->compareSet(key, "", value); });
}

std::optional<std::string> C10dStore::find(const std::string& key) {
  return guarded([&]() -> std::optional<std::string> {
    if (!store_->check({key})) return std::nullopt;
    return store_->get_to_str(key);
  });
}

int64_t C10dStore::add(const std::string& key, int64_t count) {
  return guarded([&] { return store_->add(key, count); });
}

void silence_c10d() {
  // Once a process, since ranks may be its threads.
  static const bool once = [] {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
    return true;
  }();
  (void)once;
}

std::shared_ptr<KeyStore> serve_store(int listen_fd, const std::string& address, int port,
                                      milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = true;
  options.waitWorkers = false;  // the join table waits, and can say for whom
  options.timeout = timeout;
  options.masterListenFd = listen_fd;
  return std::make_shared<C10dStore>(open_tcp_store(address, options));
}

std::shared_ptr<KeyStore> reach_store(const std::string& host, int port, const std::string& prefix,
                                      milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = timeout;
  StorePtr store = open_tcp_store(host, options);
  if (!prefix.empty()) store = c10::make_intrusive<c10d::PrefixStore>(prefix, store);
  return std::make_shared<C10dStore>(std::move(store));
}

std::shared_ptr<KeyStore> store_in_process() {
  return std::make_shared<C10dStore>(c10::make_intrusive<c10d::HashStore>());
}

}  // namespace duoka::comm
