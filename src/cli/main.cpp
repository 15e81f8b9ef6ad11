// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include "duoka/cli/command.h"

int main(int argc, char** argv) {
  // A file beyond the limit of its size, and a reader that went away, are errors of write(), not deaths.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  return duoka::cli::run_command({argv + 1, argv + argc});
}
