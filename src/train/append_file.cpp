// SPDX-License-Identifier: Apache-2.0
#include "train/append_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::train {

int open_for_append(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0)
    throw SystemError(text("cannot open ", path.string(), " for writing: ", std::strerror(errno)));
  return descriptor;
}

void append(int descriptor, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw SystemError(text("cannot write to ", path.string(), ": ", std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace duoka::train
