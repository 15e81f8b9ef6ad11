// SPDX-License-Identifier: Apache-2.0
#include "cli/versions.h"

#include <filesystem>
#include <initializer_list>

#include <ATen/Version.h>
#include <torch/version.h>

#include "cli/shared_library.h"
#include "duoka/core/text.h"

namespace duoka::cli {

namespace {

/// First of `files` that can be opened and answers, as text.
template <class Ask>
std::string first_answer(std::initializer_list<const char*> files, Ask&& ask) {
  for (const char* file : files) {
    const SharedLibrary library(file);
    if (const std::string answer = ask(library); !answer.empty())
      return text(answer, " (", std::filesystem::path(library.path()).lexically_normal().string(), ")");
  }
  return "";
}

/// Asks a function of the form `int f(int* version)` that returns 0 when it could tell.
std::string ask_by_pointer(const SharedLibrary& library, const char* name, std::string (*to_text)(int)) {
  auto* function = library.function<int(int*)>(name);
  int version = 0;
  return function != nullptr && function(&version) == 0 ? to_text(version) : "";
}

}  // namespace

std::string nccl_version_text(int version) {
  return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::string cudnn_version_text(int64_t version) {
  return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::string cuda_version_text(int version) { return text(version / 1000, ".", version % 1000 / 10); }

Versions find_versions() {
  Versions out;
  out.libtorch = TORCH_VERSION;
  out.cpu_capability = at::get_cpu_capability();
  out.cuda = first_answer({"libcudart.so.13", "libcudart.so.12"}, [](const SharedLibrary& library) {
    return ask_by_pointer(library, "cudaRuntimeGetVersion", cuda_version_text);
  });
  out.cudnn = first_answer({"libcudnn.so.9"}, [](const SharedLibrary& library) {
    auto* function = library.function<size_t()>("cudnnGetVersion");
    return function != nullptr ? cudnn_version_text(static_cast<int64_t>(function())) : "";
  });
  out.nccl = first_answer({"libnccl.so.2"}, [](const SharedLibrary& library) {
    return ask_by_pointer(library, "ncclGetVersion", nccl_version_text);
  });
  return out;
}

}  // namespace duoka::cli
