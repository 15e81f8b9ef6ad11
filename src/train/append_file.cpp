// SPDX-License-Identifier: Apache-2.0
#include "train/append_file.h"

#include <cerrno>
#include <cstring>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/io/json.h"

namespace duoka::train {

namespace {

/// A last line that was cut, or one that is not ours, is dropped too.
std::string lines_up_to(const std::filesystem::path& path, const char* step_key, int64_t step) {
  std::istringstream in(read_text_file(path));
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const io::Json entry = io::Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object() || !entry.contains(step_key) || !entry[step_key].is_number_integer()) continue;
    if (entry[step_key].get<int64_t>() <= step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

int open_for_append(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0)
    throw SystemError(text("cannot open ", path.string(), " for writing: ", std::strerror(errno)));
  return descriptor;
}

int open_lines_up_to(const std::filesystem::path& path, const char* step_key, int64_t step) {
  const bool goes_on = step > 0 && std::filesystem::exists(path);
  write_file_atomically(path, goes_on ? lines_up_to(path, step_key, step) : std::string());
  return open_for_append(path);
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
