// SPDX-License-Identifier: Apache-2.0
#include "train/retention.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/train/checkpoint.h"
#include "train/manifest.h"

namespace duoka::train {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view prefix = "checkpoint-";

bool is_complete(const fs::path& folder) {
  try {
    verify_manifest(folder, read_manifest(folder), /*read_bytes=*/false);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Those with the name of a checkpoint.
std::vector<fs::path> folders(const fs::path& output_dir, bool with_manifest) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(output_dir, error))
    if (checkpoint_step(item.path()) && item.is_directory(error) &&
        has_manifest(item.path()) == with_manifest)
      found.push_back(item.path());
  std::sort(found.begin(), found.end());
  return found;
}

/// Hidden first, so that a removal that is cut short leaves no half of a checkpoint under its name.
void remove_at_once(const fs::path& folder) {
  const fs::path hidden = folder.parent_path() / ("." + folder.filename().string() + ".removed");
  std::error_code error;
  fs::remove_all(hidden, error);
  fs::rename(folder, hidden, error);
  if (!error) fs::remove_all(hidden, error);
  if (error)
    throw SystemError(text("cannot remove the old checkpoint ", folder.string(), ": ", error.message(),
                           "; the new one is complete"));
}

}  // namespace

std::optional<int64_t> checkpoint_step(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(prefix)) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, step);
  if (error != std::errc() || stop != end || step < 0) return std::nullopt;
  return step;
}

std::string checkpoint_name(int64_t step) { return text(prefix, step); }

std::vector<std::pair<int64_t, fs::path>> list_checkpoints(const fs::path& output_dir) {
  std::vector<std::pair<int64_t, fs::path>> found;
  for (const fs::path& folder : earlier_checkpoints(output_dir))
    if (is_complete(folder)) found.emplace_back(checkpoint_step(folder).value(), folder);
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> earlier_checkpoints(const fs::path& output_dir) {
  return folders(output_dir, /*with_manifest=*/true);
}

std::vector<fs::path> folders_without_manifest(const fs::path& output_dir) {
  return folders(output_dir, /*with_manifest=*/false);
}

void remove_old_checkpoints(const fs::path& output_dir, int64_t limit, int64_t newest,
                            const std::string& best) {
  if (limit <= 0) return;
  auto all = list_checkpoints(output_dir);
  std::stable_partition(all.begin(), all.end(), [&](const auto& one) { return one.first > newest; });
  auto num_left = static_cast<int64_t>(all.size());
  for (const auto& [step, folder] : all) {
    if (num_left <= limit) return;
    if (step == newest || (!best.empty() && folder.filename() == fs::path(best).filename())) continue;
    remove_at_once(folder);
    --num_left;
  }
}

}  // namespace duoka::train
