// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace duoka::comm {

/// Small table of words that all ranks of a job see; where they meet before there are wires.
/// Every call is one or two messages to the process that keeps it. All throw CommError when that is gone.
class KeyStore {
 public:
  virtual ~KeyStore() = default;
  /// Gives `key` the value unless it has one; returns the value it has then.
  virtual std::string set_once(const std::string& key, const std::string& value) = 0;
  virtual std::optional<std::string> find(const std::string& key) = 0;
  /// Adds to a counter that starts at 0; returns the sum.
  virtual int64_t add(const std::string& key, int64_t count) = 0;
};

/// Serves a store on `listen_fd`, a listening socket bound to `port`, which it owns from then on; uses it
/// itself through `address`.
std::shared_ptr<KeyStore> serve_store(int listen_fd, const std::string& address, int port,
                                      std::chrono::milliseconds timeout);
/// The store someone serves at host:port. Keys get `prefix` in front.
std::shared_ptr<KeyStore> reach_store(const std::string& host, int port, const std::string& prefix,
                                      std::chrono::milliseconds timeout);
/// One for the threads of this process.
std::shared_ptr<KeyStore> store_in_process();

}  // namespace duoka::comm
