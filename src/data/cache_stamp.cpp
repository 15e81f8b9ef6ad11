// SPDX-License-Identifier: Apache-2.0
#include "data/cache_stamp.h"

#include <chrono>
#include <sstream>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "data/token_file.h"
#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/data/token_cache.h"

namespace duoka::data {

namespace {

constexpr int64_t max_stamp_bytes = 4096;

std::filesystem::path stamp_path(const std::filesystem::path& folder, const std::string& data_path,
                                 std::span<const std::string_view> parts) {
  const std::string absolute = std::filesystem::absolute(data_path).string();
  std::vector<std::string_view> all{absolute};
  all.insert(all.end(), parts.begin(), parts.end());
  return folder / (hex(content_key(all)) + ".stamp");
}

}  // namespace

std::string state_of_file(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "";
  return text(status.st_dev, " ", status.st_ino, " ", status.st_size, " ", status.st_ctim.tv_sec, " ",
              status.st_ctim.tv_nsec);
}

bool is_settled(const std::filesystem::path& path) {
  using namespace std::chrono;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;
  const auto changed = seconds(status.st_ctim.tv_sec) + nanoseconds(status.st_ctim.tv_nsec);
  const auto age = system_clock::now().time_since_epoch() - changed;
  // Clocks of file systems tick every 10 ms or less, some old ones every one or two seconds.
  return age > (status.st_ctim.tv_nsec == 0 ? milliseconds(2000) : milliseconds(50));
}

CacheStamp::CacheStamp(std::filesystem::path folder, std::string data_path,
                       std::span<const std::string_view> parts)
    : folder_(std::move(folder)),
      data_path_(std::move(data_path)),
      path_(stamp_path(folder_, data_path_, parts)) {}

std::optional<std::filesystem::path> CacheStamp::find() const {
  std::string data_state, name, cache_state;
  try {
    if (!std::filesystem::exists(path_)) return std::nullopt;
    std::istringstream lines(read_text_file(path_, max_stamp_bytes));
    if (!std::getline(lines, data_state) || !std::getline(lines, name) || !std::getline(lines, cache_state))
      return std::nullopt;
  } catch (const SystemError&) {
    return std::nullopt;  // The files themselves will say it better.
  }
  if (data_state.empty() || data_state != state_of_file(data_path_)) return std::nullopt;
  const std::filesystem::path cache_file = folder_ / std::filesystem::path(name).filename();
  if (cache_state != state_of_file(cache_file)) return std::nullopt;
  return cache_file;
}

void CacheStamp::write(const std::string& data_state, const std::filesystem::path& cache_file) const {
  if (!is_settled(data_path_) || !is_settled(cache_file)) return;
  try {
    write_file_atomically(
        path_, text(data_state, "\n", cache_file.filename().string(), "\n", state_of_file(cache_file), "\n"));
  } catch (const SystemError&) {
    // The next start reads the files again.
  }
}

}  // namespace duoka::data
