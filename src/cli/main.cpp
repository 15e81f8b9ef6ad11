// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include <fcntl.h>
#include <unistd.h>

#include "duoka/cli/command.h"
#include "duoka/core/host_allocator.h"

namespace {

/// A number that is free here would be given to the next file opened, a checkpoint say, and messages would go
/// into that.
void fill_standard_descriptors() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd >= 0) ::close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  // A file beyond the limit of its size, and a reader that went away, are errors of write(), not deaths.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  fill_standard_descriptors();
  duoka::host_allocator::install();
  return duoka::cli::run_command({argv + 1, argv + argc});
}
