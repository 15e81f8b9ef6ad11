// SPDX-License-Identifier: Apache-2.0
#include "core/offload_store.h"

#include "core/offload_file.h"
#include "core/offload_pinned.h"

namespace duoka {

std::shared_ptr<OffloadStore> make_offload_store(at::Device device, const std::filesystem::path& folder) {
  if (device.is_cpu()) return std::make_shared<OffloadFile>(folder);
  return std::make_shared<OffloadPinned>(device);
}

}  // namespace duoka
