// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>

namespace duoka::cli {

struct DoctorOptions {
  /// "gloo", "nccl", or "auto" for NCCL where there are cards and Gloo elsewhere.
  std::string backend = "auto";
  /// Where checkpoints would go: its free space is looked at.
  std::string output_dir = ".";
};

/// Prints what this machine has for training, tries a real all-reduce between two local ranks, and says
/// what is missing and what to do, in lines of at most `columns` (0: of any length). Returns 0 when training
/// can run here, else 1. Takes a few seconds.
int doctor(std::ostream& out, const DoctorOptions& options = {}, int columns = 0);

}  // namespace duoka::cli
