// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace duoka::cli {

/// Versions of what is loaded or can be; "" for what is not there.
struct Versions {
  std::string libtorch;
  std::string cpu_capability;  ///< The instruction set ATen's kernels use, "AVX2".
  std::string cuda;
  std::string cudnn;
  std::string nccl;
};

Versions find_versions();

/// "2.30.7" of NCCL's 23007, "9.12.0" of cuDNN's 91200, "13.2" of CUDA's 13020.
std::string nccl_version_text(int version);
std::string cudnn_version_text(int64_t version);
std::string cuda_version_text(int version);

}  // namespace duoka::cli
