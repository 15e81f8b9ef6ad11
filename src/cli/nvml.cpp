// SPDX-License-Identifier: Apache-2.0
#include "cli/nvml.h"

#include <set>
#include <stdexcept>
#include <utility>

#include "cli/shared_library.h"
#include "duoka/core/text.h"

namespace duoka::cli {

namespace {

// NVML's C interface, as far as it is used here. It is fixed by the driver's binary compatibility.
using Device = void*;
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
constexpr int success = 0;
constexpr int p2p_by_nvlink = 2;
constexpr int p2p_works = 0;

/// The driver's library, initialised while this lives.
class Nvml final {
 public:
  Nvml() : library_("libnvidia-ml.so.1") {
    if (library_.is_missing()) throw std::runtime_error("no NVIDIA driver (libnvidia-ml.so.1 is not there)");
    const int code = call<int>("nvmlInit_v2");
    if (code != success)
      throw std::runtime_error(text("the NVIDIA driver does not answer (NVML error ", code, ")"));
  }
  ~Nvml() { call<int>("nvmlShutdown"); }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver_version() const {
    char version[96] = {};
    if (call<int>("nvmlSystemGetDriverVersion", version, static_cast<unsigned>(sizeof version)) != success)
      return "unknown";
    int cuda = 0;
    if (call<int>("nvmlSystemGetCudaDriverVersion_v2", &cuda) != success) return version;
    return text(version, " (for CUDA up to ", cuda / 1000, ".", cuda % 1000 / 10, ")");
  }

  std::vector<Device> devices() const {
    unsigned count = 0;
    std::vector<Device> out;
    if (call<int>("nvmlDeviceGetCount_v2", &count) != success) return out;
    for (unsigned i = 0; i < count; ++i) {
      Device device = nullptr;
      if (call<int>("nvmlDeviceGetHandleByIndex_v2", i, &device) == success) out.push_back(device);
    }
    return out;
  }

  Card card(Device device) const {
    Card out;
    char name[96] = {};
    if (call<int>("nvmlDeviceGetName", device, name, static_cast<unsigned>(sizeof name)) == success)
      out.name = name;
    Memory memory{};
    if (call<int>("nvmlDeviceGetMemoryInfo", device, &memory) == success) {
      out.total_bytes = static_cast<int64_t>(memory.total);
      out.free_bytes = static_cast<int64_t>(memory.free);
    }
    return out;
  }

  std::string link(Device a, Device b) const {
    int status = -1;
    if (call<int>("nvmlDeviceGetP2PStatus", a, b, p2p_by_nvlink, &status) == success && status == p2p_works)
      return "NVLink";
    int level = -1;
    if (call<int>("nvmlDeviceGetTopologyCommonAncestor", a, b, &level) != success) return "unknown";
    if (level <= 0) return "one board";
    if (level <= 20) return "PCIe switch";
    if (level <= 40) return "PCIe, one socket";
    return "across sockets";
  }

 private:
  /// A function an old driver lacks fails as any other.
  template <class Result, class... Arguments>
  Result call(const char* name, Arguments... arguments) const {
    auto* function = library_.function<Result(Arguments...)>(name);
    return function != nullptr ? function(arguments...) : Result{-1};
  }

  SharedLibrary library_;
};

std::string describe_links(const Nvml& nvml, const std::vector<Device>& devices) {
  std::vector<std::string> pairs;
  std::set<std::string> kinds;
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = i + 1; j < devices.size(); ++j) {
      const std::string kind = nvml.link(devices[i], devices[j]);
      kinds.insert(kind);
      pairs.push_back(text(i, "-", j, ": ", kind));
    }
  }
  return kinds.size() == 1 ? text("all pairs: ", *kinds.begin()) : join(pairs);
}

}  // namespace

Cards ask_driver() {
  Cards out;
  try {
    const Nvml nvml;
    out.driver_version = nvml.driver_version();
    const auto devices = nvml.devices();
    for (Device device : devices) out.cards.push_back(nvml.card(device));
    out.links = describe_links(nvml, devices);
  } catch (const std::runtime_error& error) {
    out.trouble = error.what();
  }
  return out;
}

}  // namespace duoka::cli
