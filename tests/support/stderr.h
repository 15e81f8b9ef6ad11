// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <thread>

#include <fcntl.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include "duoka/core/files.h"
#include "support/test_files.h"

namespace duoka::testing {

/// Runs `body` with standard error going to `descriptor`.
template <class Body>
void with_stderr(int descriptor, const Body& body) {
  const int before = ::dup(STDERR_FILENO);
  ::dup2(descriptor, STDERR_FILENO);
  body();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
}

/// What `body` writes to standard error, which is a file meanwhile.
template <class Body>
std::string caught(const Body& body) {
  const TemporaryFolder folder;
  const int file = ::open((folder / "err").c_str(), O_WRONLY | O_CREAT, 0600);
  with_stderr(file, body);
  ::close(file);
  return read_text_file(folder / "err");
}

/// What `body` writes to standard error, which is a terminal of `columns` meanwhile; byte for byte.
template <class Body>
std::string shown_on_terminal(int columns, const Body& body) {
  int terminal = -1, screen = -1;
  termios raw{};
  ::cfmakeraw(&raw);  // or "\n" would become "\r\n"
  const winsize size{24, static_cast<unsigned short>(columns), 0, 0};
  if (::openpty(&terminal, &screen, nullptr, &raw, &size) != 0)
    throw std::runtime_error("no pseudo-terminal");
  std::string shown;
  // Reads beside it, for a terminal holds but 4 KiB; up to a mark, for the kernel hands characters on late.
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t n = 0; !shown.ends_with('\0') && (n = ::read(terminal, buffer, sizeof buffer)) > 0;)
      shown.append(buffer, static_cast<size_t>(n));
  });
  with_stderr(screen, body);
  const bool is_marked = ::write(screen, "", 1) == 1;
  if (!is_marked) ::close(screen);  // ends the reader
  reader.join();
  if (is_marked) ::close(screen);
  ::close(terminal);
  return shown.substr(0, shown.find('\0'));
}

}  // namespace duoka::testing
