// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace duoka::cli {

struct Card {
  std::string name;
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
};

/// What the NVIDIA driver says, asked through its own library, which needs no CUDA in this build.
struct Cards {
  /// Why nothing could be asked; "" when all went well.
  std::string trouble;
  std::string driver_version;
  std::vector<Card> cards;
  /// How each pair of cards is joined, "all pairs: NVLink" or "0-1: NVLink, 0-2: across sockets"; "" for one
  /// card.
  std::string links;
};

Cards ask_driver();

}  // namespace duoka::cli
