// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "duoka/comm/world.h"

namespace duoka::comm {

/// Environment variables with their checks.
class Environment final {
 public:
  explicit Environment(const World::Lookup& lookup) : lookup_(lookup) {}

  /// Unset and empty are the same.
  std::optional<std::string> word(const std::string& name) const;
  /// A number in [0, 2^31). Throws ConfigError for any other word.
  std::optional<int> number(const std::string& name) const;
  /// The same, throwing ConfigError when unset. `because`: "SLURM_PROCID is set".
  int needed_number(const std::string& name, const std::string& because) const;

 private:
  const World::Lookup& lookup_;
};

/// First host of Slurm's compressed list: "gpu[07-12,40],login" -> "gpu07".
std::string first_slurm_host(const std::string& list);
/// Entry `node` of Slurm's compressed counts: "4(x2),3" is 4, 4, 3. std::nullopt when there is none.
std::optional<int> slurm_count_at(const std::string& counts, int node);

}  // namespace duoka::comm
