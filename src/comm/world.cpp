// SPDX-License-Identifier: Apache-2.0
#include "duoka/comm/world.h"

#include <cstdlib>
#include <vector>

#include <unistd.h>

#include "comm/environment.h"
#include "comm/sockets.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

/// What one launcher says, and in which variables.
struct Claim {
  World world;
  std::string rank_name;
  std::string size_name;
  /// The ranks of this machine are known, not assumed.
  bool knows_local = true;
};

Claim claim(const Environment& env, Launcher launcher, const std::string& rank_name,
            const std::string& size_name) {
  Claim out{.world = {}, .rank_name = rank_name, .size_name = size_name};
  out.world.launcher = launcher;
  out.world.rank = env.needed_number(rank_name, text(size_name, " is set"));
  out.world.size = env.needed_number(size_name, text(rank_name, " is set"));
  if (out.world.rank >= out.world.size)
    throw ConfigError(text(rank_name, " = ", out.world.rank, " is not below ", size_name, " = ",
                           out.world.size, "; ranks count from 0. Are they left over from another job?"));
  return out;
}

void set_local(Claim& out, const Environment& env, const std::string& rank_name,
               const std::string& size_name) {
  const auto rank = env.number(rank_name);
  const auto size = env.number(size_name);
  out.knows_local = rank && size;
  out.world.local_rank = rank.value_or(0);
  out.world.local_size = size.value_or(out.world.local_rank + 1);
  if (out.world.local_rank >= out.world.local_size)
    throw ConfigError(text(rank_name, " = ", out.world.local_rank, " is not below ", size_name, " = ",
                           out.world.local_size));
}

std::optional<Claim> read_torchrun(const Environment& env) {
  if (!env.word("RANK") && !env.word("WORLD_SIZE")) return std::nullopt;
  Claim out = claim(env, Launcher::torchrun, "RANK", "WORLD_SIZE");
  set_local(out, env, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  if (env.word("DUOKA_LAUNCHED")) {
    out.world.launcher = Launcher::duoka;
    if (out.world.rank == 0) out.world.listen_fd = env.number("DUOKA_LISTEN_FD").value_or(-1);
  }
  out.world.has_store = env.word("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (out.world.has_store)
    out.world.store_prefix = text("duoka/attempt-", env.word("TORCHELASTIC_RESTART_COUNT").value_or("0"));
  return out;
}

std::optional<Claim> read_open_mpi(const Environment& env) {
  if (!env.word("OMPI_COMM_WORLD_RANK")) return std::nullopt;
  Claim out = claim(env, Launcher::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  set_local(out, env, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  return out;
}

std::optional<Claim> read_mpich(const Environment& env) {
  if (!env.word("PMI_RANK")) return std::nullopt;
  Claim out = claim(env, Launcher::mpich, "PMI_RANK", "PMI_SIZE");
  set_local(out, env, "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  return out;
}

std::optional<Claim> read_slurm(const Environment& env) {
  // The script of an sbatch job has SLURM_PROCID too, but is one process; only srun makes a step.
  if (!env.word("SLURM_PROCID") || !env.word("SLURM_STEP_ID")) return std::nullopt;
  const char* size_name = env.word("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  Claim out = claim(env, Launcher::slurm, "SLURM_PROCID", size_name);
  out.world.local_rank = env.number("SLURM_LOCALID").value_or(0);
  auto counts = env.word("SLURM_STEP_TASKS_PER_NODE");
  if (!counts) counts = env.word("SLURM_TASKS_PER_NODE");
  const auto local_size = slurm_count_at(counts.value_or(""), env.number("SLURM_NODEID").value_or(0));
  out.knows_local = local_size.has_value();
  out.world.local_size = local_size.value_or(out.world.local_rank + 1);
  if (out.world.local_rank >= out.world.local_size)
    throw ConfigError(text("SLURM_LOCALID = ", out.world.local_rank,
                           " does not fit tasks per node = ", counts.value_or(""), " of this node"));
  return out;
}

void check_agreement(const Claim& chosen, const std::optional<Claim>& other) {
  if (!other || (other->world.rank == chosen.world.rank && other->world.size == chosen.world.size)) return;
  throw ConfigError(text("two launchers disagree: ", chosen.rank_name, " = ", chosen.world.rank, " of ",
                         chosen.size_name, " = ", chosen.world.size, ", but ", other->rank_name, " = ",
                         other->world.rank, " of ", other->size_name, " = ", other->world.size,
                         "; unset those that are left over from another job"));
}

/// The launcher nearest to this process. Throws when two that cannot be nested disagree.
std::optional<Claim> choose(const Environment& env) {
  auto torchrun = read_torchrun(env);
  // These two start processes of their own inside whatever started them: theirs is the last word.
  if (torchrun && (env.word("DUOKA_LAUNCHED") || env.word("TORCHELASTIC_RUN_ID"))) return torchrun;
  auto open_mpi = read_open_mpi(env);
  const auto mpich = read_mpich(env);
  const auto slurm = read_slurm(env);
  if (torchrun) {
    check_agreement(*torchrun, open_mpi);
    check_agreement(*torchrun, mpich);
    // A step of one task is the shell someone works in.
    if (slurm && slurm->world.size > 1) check_agreement(*torchrun, slurm);
    return torchrun;
  }
  if (open_mpi) {
    check_agreement(*open_mpi, mpich);
    return open_mpi;
  }
  // mpirun in a Slurm job is started by a step whose own numbers its ranks inherit, so Slurm comes last.
  return mpich ? mpich : slurm;
}

/// Something all ranks of the job know and other jobs do not.
std::string job_name(const Environment& env, Launcher launcher) {
  if (launcher == Launcher::slurm)
    return text(env.word("SLURM_JOB_ID").value_or(""), ".", env.word("SLURM_STEP_ID").value_or(""));
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"})
    if (const auto id = env.word(name)) return *id;
  return std::to_string(getppid());  // ranks of one machine have mpirun or its proxy as parent
}

/// FNV-1a, folded into a range below the ports that systems hand out by themselves.
int port_for(const std::string& job) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return 20000 + static_cast<int>(hash % 10000);
}

std::string default_address(const Claim& claim, const Environment& env) {
  if (claim.world.launcher == Launcher::slurm) {
    for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
      if (const auto hosts = env.word(name)) return first_slurm_host(*hosts);
  }
  if (claim.knows_local && claim.world.local_size == claim.world.size) return "127.0.0.1";
  throw ConfigError(
      text(claim.size_name, " = ", claim.world.size, " but MASTER_ADDR is not set and not all ranks are",
           " known to be on this machine; set MASTER_ADDR to the machine of rank 0, and MASTER_PORT"));
}

void set_meeting_place(Claim& claim, const Environment& env) {
  World& world = claim.world;
  if (world.size == 1) return;
  const auto address = env.word("MASTER_ADDR");
  world.master_addr = address ? *address : default_address(claim, env);
  // By hand, without LOCAL_*: ranks that meet on loopback are all here, others are taken to be one a machine.
  if (world.launcher == Launcher::torchrun && !claim.knows_local && is_loopback(world.master_addr)) {
    world.local_rank = world.rank;
    world.local_size = world.size;
  }
  const auto port = env.number("MASTER_PORT");
  if (port && (*port < 1 || *port > 65535))
    throw ConfigError(text("MASTER_PORT = ", *port, " is not a port; choose one from 1024 to 65535"));
  if (!port && world.launcher == Launcher::torchrun)
    throw ConfigError(text("WORLD_SIZE = ", world.size,
                           " but MASTER_PORT is not set; set it to a free port of ", world.master_addr,
                           ", the same on every rank"));
  world.master_port = port ? *port : port_for(job_name(env, world.launcher));
}

}  // namespace

const char* launcher_name(Launcher launcher) {
  switch (launcher) {
    case Launcher::none:
      return "none";
    case Launcher::duoka:
      return "duoka";
    case Launcher::torchrun:
      return "torchrun";
    case Launcher::slurm:
      return "Slurm";
    case Launcher::open_mpi:
      return "Open MPI";
    case Launcher::mpich:
      return "MPICH";
  }
  return "unknown";
}

World World::from_environment(const Lookup& lookup) {
  const Environment env(lookup);
  auto claim = choose(env);
  if (!claim) return {};
  set_meeting_place(*claim, env);
  return claim->world;
}

World World::from_environment() {
  return from_environment([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  });
}

}  // namespace duoka::comm
