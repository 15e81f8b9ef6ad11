// SPDX-License-Identifier: Apache-2.0
#include "data/cache_stamp.h"

#include <chrono>
#include <sstream>
#include <utility>

#include <sys/stat.h>

#include "data/token_file.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/data/token_cache.h"

namespace duoka::data {

namespace {

namespace fs = std::filesystem;

/// A few paths' states.
constexpr int64_t max_stamp_bytes = 1 << 16;

fs::path stamp_path(const fs::path& folder, std::span<const fs::path> inputs,
                    std::span<const std::string_view> parts) {
  std::vector<std::string> paths;
  for (const fs::path& input : inputs) paths.push_back(fs::absolute(input).string());
  std::vector<std::string_view> all(paths.begin(), paths.end());
  all.insert(all.end(), parts.begin(), parts.end());
  return folder / (hex(content_key(all)) + ".stamp");
}

/// Clocks of file systems tick every 10 ms or less, some old ones every one or two seconds.
bool was_long_ago(const timespec& changed) {
  using namespace std::chrono;
  const auto age =
      system_clock::now().time_since_epoch() - (seconds(changed.tv_sec) + nanoseconds(changed.tv_nsec));
  return age > (changed.tv_nsec == 0 ? milliseconds(2000) : milliseconds(50));
}

FileState state_of_file(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {"none", true};
  return {text(status.st_dev, " ", status.st_ino, " ", status.st_size, " ", status.st_ctim.tv_sec, " ",
               status.st_ctim.tv_nsec),
          was_long_ago(status.st_ctim)};
}

}  // namespace

FileState state_of_files(std::span<const fs::path> paths) {
  FileState all;
  for (const fs::path& path : paths) {
    const FileState one = state_of_file(path);
    all.text += (all.text.empty() ? "" : "; ") + one.text;
    all.is_settled = all.is_settled && one.is_settled;
  }
  return all;
}

CacheStamp::CacheStamp(fs::path folder, std::vector<fs::path> inputs, std::span<const std::string_view> parts)
    : folder_(std::move(folder)), inputs_(std::move(inputs)), path_(stamp_path(folder_, inputs_, parts)) {}

std::optional<fs::path> CacheStamp::find(const FileState& inputs) const {
  std::string state, name, cache_state;
  try {
    if (!fs::exists(path_)) return std::nullopt;
    std::istringstream lines(read_text_file(path_, max_stamp_bytes));
    if (!std::getline(lines, state) || !std::getline(lines, name) || !std::getline(lines, cache_state))
      return std::nullopt;
  } catch (const SystemError&) {
    return std::nullopt;  // The files themselves will say it better.
  }
  if (state != inputs.text) return std::nullopt;
  fs::path cache_file = folder_ / fs::path(name).filename();
  if (cache_state != state_of_file(cache_file).text) return std::nullopt;
  return cache_file;
}

void CacheStamp::write(const FileState& inputs, const fs::path& cache_file) const {
  const FileState cache = state_of_file(cache_file);
  if (!inputs.is_settled || !cache.is_settled) return;
  try {
    write_file_atomically(path_,
                          text(inputs.text, "\n", cache_file.filename().string(), "\n", cache.text, "\n"));
  } catch (const SystemError&) {
    // The next start reads the files again.
  }
}

}  // namespace duoka::data
