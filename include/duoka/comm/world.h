// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "duoka/comm/group.h"

namespace duoka::comm {

/// Who started the ranks.
enum class Launcher { none, duoka, torchrun, slurm, open_mpi, mpich };
/// "torchrun", "Slurm", "Open MPI"…; torchrun also stands for hand-set RANK and WORLD_SIZE.
const char* launcher_name(Launcher launcher);

/// This process's place among the ranks of a job, and where they meet.
struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< Among the ranks of this machine; chooses the card.
  int local_size = 1;
  std::string master_addr = "127.0.0.1";  ///< Where rank 0 listens.
  int master_port = 0;
  Launcher launcher = Launcher::none;
  /// A socket already listening on master_port, handed down to rank 0 by duoka's launcher; else -1.
  int listen_fd = -1;
  /// torchrun's agent already serves the store at master_addr:master_port, so rank 0 must not.
  bool has_store = false;
  std::string store_prefix = {};  ///< Keeps attempts of one job apart in a shared store.

  /// Reads `getenv`-like lookup; std::nullopt for an unset variable. Waits for nothing.
  using Lookup = std::function<std::optional<std::string>(const std::string&)>;

  /// Reads the environment a launcher left, first match wins:
  ///  - RANK and WORLD_SIZE (torchrun, duoka's launcher, or by hand) with LOCAL_RANK, LOCAL_WORLD_SIZE,
  ///    MASTER_ADDR, MASTER_PORT;
  ///  - OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE (Open MPI);
  ///  - PMI_RANK and PMI_SIZE with MPI_LOCALRANKID, MPI_LOCALNRANKS (MPICH, Hydra, Intel MPI);
  ///  - SLURM_PROCID and SLURM_STEP_NUM_TASKS (or SLURM_NTASKS) with SLURM_LOCALID, SLURM_STEP_NODELIST;
  ///    only inside a step (srun), so that a plain command in an allocation is one rank.
  /// None: one rank alone.
  /// Where a launcher gives no address: MASTER_ADDR and MASTER_PORT if set; else Slurm's first host; else
  /// loopback when all ranks are on this machine; else a ConfigError asking for MASTER_ADDR. A port not
  /// given is 20000 + hash(job id) % 10000, the same on each rank and different from job to job.
  /// Throws ConfigError at once on contradictions: rank >= size, a size without a rank or the reverse, a
  /// number that is none, LOCAL_RANK >= LOCAL_WORLD_SIZE, two launchers that disagree.
  static World from_environment();
  static World from_environment(const Lookup& lookup);
};

struct ConnectOptions {
  /// Longest wait for peers to join, and for each collective. The user's key is `ddp_timeout`, in seconds.
  std::chrono::milliseconds timeout = std::chrono::seconds(1800);
  std::string axis = "data";
  /// Index of the CUDA device of this rank: adds NCCL wires for its tensors. -1: CPU only.
  int cuda_device = -1;
};

/// Brings the ranks of `world` together. Collective: each rank calls it once. Solo for size 1. Returns when
/// every rank is connected to every other.
///
/// Ranks enter a table kept by rank 0 before any wire is made, so that what is wrong is said by name:
///  - a peer missing after options.timeout: CommError "1 of 2 joined … missing: rank 1 …";
///  - the same rank twice, or ranks that disagree on the number of ranks: ConfigError, on all ranks, at once;
///  - master_addr does not resolve, master_port is in use: ConfigError with the value and the variable;
///  - a peer ends, or does not reach this rank, while wires are made: CommError.
/// While waiting rank 0 says on stderr who is missing, first after 10 seconds.
/// Ignores SIGPIPE in this process, unless the program has set it: a peer that goes is a CommError.
Group connect(const World& world, const ConnectOptions& options = {});

}  // namespace duoka::comm
