// SPDX-License-Identifier: Apache-2.0
#include "cli/file_identity.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/content_hash.h"
#include "core/descriptor.h"
#include "duoka/core/text.h"

namespace duoka::cli {

namespace fs = std::filesystem;

namespace {

constexpr int64_t whole_bytes = int64_t{1} << 20;
constexpr int64_t sample_bytes = 4096;
constexpr int64_t num_samples = 64;
constexpr std::array<std::string_view, 5> endings{".json", ".safetensors", ".gguf", ".model", ".jinja"};

/// Adds up to `count` bytes at `offset`; false when the file cannot be read. Read and not mapped: a file that
/// is being written on another machine may shrink.
bool add(ContentHash& hash, int fd, int64_t offset, int64_t count) {
  std::vector<char> bytes(static_cast<size_t>(count));
  const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), offset);
  if (got > 0) hash.add(bytes.data(), static_cast<size_t>(got));
  return got >= 0;
}

}  // namespace

std::string identity_of(const fs::path& file) {
  const detail::Descriptor open_file(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (open_file.get() < 0 || ::fstat(open_file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  const auto size = static_cast<int64_t>(status.st_size);
  ContentHash hash;
  bool is_read = add(hash, open_file.get(), 0, std::min(size, whole_bytes));
  if (size > whole_bytes)
    for (int64_t i = 1; i <= num_samples; ++i)
      is_read = add(hash, open_file.get(), (size - sample_bytes) / num_samples * i, sample_bytes) && is_read;
  if (!is_read) return "";
  std::ostringstream out;
  out << count_text(size) << " bytes, hash " << std::hex << std::setfill('0') << std::setw(16)
      << hash.value()[0];
  return out.str();
}

std::map<std::string, std::string> identities_of(const fs::path& model) {
  std::error_code error;
  if (!fs::is_directory(model, error)) return {{"given", identity_of(model)}};
  std::map<std::string, std::string> identities;
  for (const auto& entry : fs::directory_iterator(model, error))
    if (std::ranges::find(endings, entry.path().extension().string()) != endings.end())
      identities[entry.path().filename().string()] = identity_of(entry.path());
  return identities;
}

}  // namespace duoka::cli
