// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <dlfcn.h>
#include <link.h>

namespace duoka::cli {

/// A library that may or may not be on this machine, opened at run time.
class SharedLibrary final {
 public:
  explicit SharedLibrary(const char* file) : handle_(dlopen(file, RTLD_LAZY | RTLD_LOCAL)) {}
  ~SharedLibrary() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  bool is_missing() const { return handle_ == nullptr; }
  /// The file it came from.
  std::string path() const {
    link_map* map = nullptr;
    return handle_ != nullptr && dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
  }
  /// Null when the library is missing or has no such function.
  template <class Function>
  Function* function(const char* name) const {
    return handle_ != nullptr ? reinterpret_cast<Function*>(dlsym(handle_, name)) : nullptr;
  }

 private:
  void* handle_;
};

}  // namespace duoka::cli
