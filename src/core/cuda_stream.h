// SPDX-License-Identifier: Apache-2.0
#pragma once

struct CUstream_st;

namespace duoka {

/// CUDA's cudaStream_t, so that who only passes one on needs no CUDA to compile. Not to be taken for a
/// Stream.
using CudaStream = CUstream_st*;

}  // namespace duoka
