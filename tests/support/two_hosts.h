// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/run_duoka.h"

namespace duoka::testing {

/// Two machines inside this one, as far as the network goes: two namespaces that the kernel keeps apart, a
/// cable (a veth pair, "cable0" on each) between them, loopback up in each, and on each a second network card
/// that leads nowhere. Files are shared, as on a cluster.
///
/// No root is needed where the kernel lets users make namespaces. They have no names and live as long as a
/// process in them does, so that nothing is left however the test ends.
class TwoHosts final {
 public:
  /// Throws std::runtime_error that says what the machine refuses.
  TwoHosts();

  /// Of the cable's end at `host`, 0 or 1.
  static std::string address(int host);

  /// `program` on `host`; "" is the duoka under test.
  std::unique_ptr<Running> start(int host, const std::vector<std::string>& arguments,
                                 RunOptions options = {}) const;

  /// What `host` has sent over the cable, as its network card counts: headers and all.
  int64_t sent_bytes(int host) const;

  /// Pulls the cable out. Nobody is told: whoever waits for the other waits on.
  void unplug();

 private:
  std::vector<std::string> entering(int host, const std::string& program) const;
  void configure(int host, const std::vector<std::string>& ip_arguments) const;

  std::array<std::unique_ptr<Running>, 2> holders_;
};

}  // namespace duoka::testing
