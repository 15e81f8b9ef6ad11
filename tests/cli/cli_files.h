// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "duoka/core/files.h"
#include "support/run_duoka.h"
#include "support/test_files.h"

namespace duoka::testing {

using Words = std::vector<std::string>;

/// Where a test of the command works: a folder of its own, and words that name the small model and data.
class Workshop {
 public:
  const std::filesystem::path& path() const { return folder_.path(); }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return folder_ / name; }

  static std::filesystem::path case_file(const std::string& name) { return fixture("cases") / name; }
  static std::string model_word(const std::string& name = "tiny-llama") {
    return "model_name_or_path=" + case_file("models/" + name).string();
  }
  std::string cache_word() const { return "cache_dir=" + (folder_ / "cache").string(); }
  std::string output_word(const std::string& name = "out") const {
    return "output_dir=" + (folder_ / name).string();
  }

  /// `duoka train` of tiny-llama on rows7 into `output`, every update logged.
  Words train(const std::string& output, const Words& more) const {
    Words words{"train",           model_word(), "dataset=" + case_file("rows7.jsonl").string(),
                "logging_steps=1", cache_word(), output_word(output)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// `duoka eval` of `model` on `data`.
  Words eval(const std::filesystem::path& model, const std::filesystem::path& data,
             const Words& more = {}) const {
    Words words{"eval", "model_name_or_path=" + model.string(), "dataset=" + data.string(), cache_word()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Words inspect(const std::filesystem::path& data, const Words& more = {}) const {
    Words words{"data", "inspect", model_word(), "dataset=" + data.string(), cache_word()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// The first row of rows7 in a file of its own: the check row of several cases.
  std::filesystem::path check_row() const {
    const std::string rows = read_text_file(case_file("rows7.jsonl"));
    write_file(folder_ / "row.jsonl", rows.substr(0, rows.find('\n') + 1));
    return folder_ / "row.jsonl";
  }

 private:
  TemporaryFolder folder_;
};

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The lines that begin with `start`.
inline std::vector<std::string> lines_with(const std::string& text, const std::string& start) {
  std::vector<std::string> lines = lines_of(text);
  std::erase_if(lines, [&](const std::string& line) { return !line.starts_with(start); });
  return lines;
}

/// "6.867" of key "loss" in "step=1 loss=6.867 …"; "" when it is not there.
inline std::string field(const std::string& line, const std::string& key) {
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (word.starts_with(key + "=")) return word.substr(key.size() + 1);
  return "";
}

/// The losses that a run printed, as printed.
inline std::vector<std::string> printed_losses(const std::string& text) {
  std::vector<std::string> losses;
  for (const std::string& line : lines_with(text, "step=")) losses.push_back(field(line, "loss"));
  return losses;
}

inline int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace duoka::testing
