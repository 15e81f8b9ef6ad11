// SPDX-License-Identifier: Apache-2.0
#include "comm/sockets.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// An address of any family, as the socket calls want it.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::string numeric() const {
    char name[NI_MAXHOST] = {};
    if (getnameinfo(get(), length, name, sizeof name, nullptr, 0, NI_NUMERICHOST) != 0) return "";
    return name;
  }
};

/// Closes on the way out.
class Socket final {
 public:
  Socket(int family, int type) : fd_(::socket(family, type | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) throw SystemError(text("cannot make a socket: ", std::strerror(errno)));
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::vector<Address> look_up(const std::string& host, int port, int flags, int& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Address address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  std::ranges::stable_partition(addresses, [](const Address& a) { return a.family() == AF_INET; });
  return addresses;
}

Address parse_numeric(const std::string& address, int port) {
  int error = 0;
  const auto found = look_up(address, port, AI_NUMERICHOST, error);
  if (found.empty()) throw StateError(text("'", address, "' is not a numeric address"));
  return found.front();
}

Address any_address(int family, int port) {
  Address any;
  any.storage.ss_family = static_cast<sa_family_t>(family);
  const auto net_port = htons(static_cast<uint16_t>(port));
  if (family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&any.storage)->sin6_port = net_port;
    any.length = sizeof(sockaddr_in6);
  } else {
    reinterpret_cast<sockaddr_in*>(&any.storage)->sin_port = net_port;
    any.length = sizeof(sockaddr_in);
  }
  return any;
}

/// -1 when the port is taken, -2 when this machine has no such family or address.
int try_listen(const Address& address) {
  int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -2;
  const int on = 1;
  const int off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // a port of a run just ended is free
  if (address.family() == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(fd, address.get(), address.length) == 0 && ::listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  ::close(fd);
  if (error == EADDRINUSE) return -1;
  if (error == EADDRNOTAVAIL || error == EAFNOSUPPORT) return -2;
  throw SystemError(text("cannot listen at ", address.numeric(), ": ", std::strerror(error)));
}

bool answers(const Address& address, milliseconds timeout) {
  const Socket socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK);
  if (::connect(socket.get(), address.get(), address.length) == 0) return true;
  if (errno != EINPROGRESS) return false;
  pollfd waiting{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&waiting, 1, static_cast<int>(timeout.count())) != 1) return false;
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

/// First usable address of `interface`, or of any interface but loopback when it is null; IPv4 first.
std::optional<std::string> interface_address(const char* interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      const bool is_wanted = interface != nullptr ? std::strcmp(entry->ifa_name, interface) == 0
                                                  : (entry->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP;
      if (!is_wanted) continue;
      Address address;
      address.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      std::memcpy(&address.storage, entry->ifa_addr, address.length);
      return address.numeric();
    }
  }
  return std::nullopt;
}

/// Where the kernel would send from: a datagram socket is connected, nothing is sent.
std::string route_source(const std::string& address) {
  const Address target = parse_numeric(address, 9);
  const Socket socket(target.family(), SOCK_DGRAM);
  Address own;
  own.length = sizeof own.storage;
  if (::connect(socket.get(), target.get(), target.length) != 0 ||
      getsockname(socket.get(), own.get(), &own.length) != 0)
    throw ConfigError(text("no network route to MASTER_ADDR ", address, ": ", std::strerror(errno)));
  return own.numeric();
}

}  // namespace

std::string numeric_address(const std::string& host) {
  const auto give_up = Clock::now() + std::chrono::seconds(5);
  int error = 0;
  while (true) {
    const auto found = look_up(host, 0, 0, error);
    if (!found.empty()) return found.front().numeric();
    if (error != EAI_AGAIN || Clock::now() >= give_up) break;
    std::this_thread::sleep_for(milliseconds(500));
  }
  throw ConfigError(text("MASTER_ADDR '", host, "' does not resolve (", gai_strerror(error),
                         "); set MASTER_ADDR to the name or address of the machine of rank 0"));
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

int listen_on(const std::string& address, int port) {
  if (!address.empty()) {
    const int fd = try_listen(parse_numeric(address, port));
    if (fd == -2)
      throw ConfigError(
          text("MASTER_ADDR ", address, " is not an address of this machine, yet rank 0 is here"));
    return fd;
  }
  // IPv6's any-address takes IPv4 in too; some machines have IPv6 switched off.
  const int fd = try_listen(any_address(AF_INET6, port));
  return fd == -2 ? try_listen(any_address(AF_INET, port)) : fd;
}

int port_of(int socket) {
  Address address;
  address.length = sizeof address.storage;
  if (getsockname(socket, address.get(), &address.length) != 0)
    throw SystemError(text("cannot read a socket's port: ", std::strerror(errno)));
  return ntohs(address.family() == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

bool wait_for_listener(const std::string& address, int port, milliseconds timeout) {
  const Address target = parse_numeric(address, port);
  const auto give_up = Clock::now() + timeout;
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(give_up - Clock::now());
    if (answers(target, std::clamp(left, milliseconds(1), milliseconds(2000)))) return true;
    if (Clock::now() >= give_up) return false;
    std::this_thread::sleep_for(milliseconds(50));
  }
}

std::string own_address(const std::string& address, bool is_alone) {
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME"); interface != nullptr && *interface != '\0') {
    if (const auto found = interface_address(interface)) return *found;
    throw ConfigError(
        text("GLOO_SOCKET_IFNAME = '", interface, "' names no network interface with an address here"));
  }
  std::string source = route_source(address);
  if (is_alone || !is_loopback(source)) return source;
  if (const auto found = interface_address(nullptr)) return *found;
  throw ConfigError("peers are on other machines, but this one has no network address besides loopback");
}

}  // namespace duoka::comm
