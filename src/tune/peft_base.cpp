// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "duoka/core/text.h"
#include "duoka/tune/peft_files.h"

namespace duoka::tune {

namespace {

namespace fs = std::filesystem;

/// The last part of a path or of "owner/name".
std::string own_name(const fs::path& path) {
  const fs::path clean = (path / "").parent_path();
  return clean.filename().string();
}

/// "a-7B.Q4_1.gguf" and "a-7B-Q4_K_M.gguf" are "a-7B"; "a-7B-Instruct.gguf" is another.
bool is_gguf_of(const std::string& file, const std::string& name) {
  if (!file.ends_with(".gguf") || !file.starts_with(name)) return false;
  const std::string rest = file.substr(name.size());
  return rest.starts_with('.') || rest.starts_with("-Q") || rest.starts_with("-q");
}

/// Whether a part of `path` is `name`, or a .gguf file of it, or its folder in the Hugging Face cache.
bool names(const fs::path& path, const std::string& name) {
  return std::ranges::any_of(path, [&](const fs::path& part) {
    const std::string there = part.string();
    return there == name || there.ends_with("--" + name) || is_gguf_of(there, name);
  });
}

}  // namespace

std::string other_base_warning(const PeftAdapter& adapter, const fs::path& base) {
  const fs::path recorded = adapter.config.base_model;
  const fs::path given = fs::absolute(base).lexically_normal();
  if (recorded.empty() || names(given, own_name(recorded)) || names(recorded, own_name(given))) return "";
  return text("the adapter was made for ", recorded.string(), ", and this base is ", base.string(),
              "; unless they are one model, the result is wrong");
}

}  // namespace duoka::tune
