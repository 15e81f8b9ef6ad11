// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace duoka::comm {

/// `host` as a numeric address, IPv4 before IPv6. Throws ConfigError when it does not resolve; a name
/// server that is busy is asked again for up to 5 seconds.
std::string numeric_address(const std::string& host);

/// True for localhost and the addresses 127.* and ::1, as written. A name that only happens to resolve to
/// one (Debian's 127.0.1.1 for the own name) is not meant for this machine alone.
bool is_loopback(const std::string& host);

/// A listening socket, closed on exec. `address` numeric, or "" for all of this machine's; port 0: a free
/// one. Returns -1 when the port is taken; throws SystemError for any other reason.
int listen_on(const std::string& address, int port);
int port_of(int socket);

/// Waits until someone listens at `address`:`port`. False when time is up.
bool wait_for_listener(const std::string& address, int port, std::chrono::milliseconds timeout);

/// The address of this machine that a peer near `address` would reach it by: GLOO_SOCKET_IFNAME's when set,
/// else the one the route to `address` leaves from. `is_alone` false: never loopback, for peers on other
/// machines.
std::string own_address(const std::string& address, bool is_alone);

}  // namespace duoka::comm
