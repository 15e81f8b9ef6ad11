// SPDX-License-Identifier: Apache-2.0
// What each launcher's environment means, and which contradictions are refused (case D06).
#include "duoka/comm/world.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/environment.h"
#include "duoka/core/error.h"

namespace duoka::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

World read(const Variables& variables) {
  return World::from_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

std::string refusal(const Variables& variables) {
  try {
    read(variables);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(accepted)";
}

const Variables torchrun = {{"RANK", "3"},
                            {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "node1"},
                            {"MASTER_PORT", "29501"}};
const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "12345"}};
const Variables mpich = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Variables slurm = {{"SLURM_PROCID", "5"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_JOB_ID", "77"},
                         {"SLURM_STEP_NUM_TASKS", "7"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                         {"SLURM_STEP_NODELIST", "gpu[07-08]"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

TEST(World, NothingSetIsOneRankAlone) {
  const World world = read({});
  EXPECT_EQ(world.rank, 0);
  EXPECT_EQ(world.size, 1);
  EXPECT_EQ(world.launcher, Launcher::none);
}

TEST(World, Torchrun) {
  const World world = read(torchrun);
  EXPECT_EQ(world.rank, 3);
  EXPECT_EQ(world.size, 4);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.master_addr, "node1");
  EXPECT_EQ(world.master_port, 29501);
  EXPECT_EQ(world.launcher, Launcher::torchrun);
  EXPECT_FALSE(world.has_store);
}

TEST(World, TorchrunsAgentMayServeTheStore) {
  const World world =
      read(with(torchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_TRUE(world.has_store);
  EXPECT_EQ(world.store_prefix, "duoka/attempt-2");
}

TEST(World, OwnLauncherHandsASocketToRankZero) {
  const Variables ours = with(torchrun, {{"DUOKA_LAUNCHED", "1"}, {"DUOKA_LISTEN_FD", "9"}});
  EXPECT_EQ(read(ours).launcher, Launcher::duoka);
  EXPECT_EQ(read(ours).listen_fd, -1) << "only rank 0 listens";
  EXPECT_EQ(read(with(ours, {{"RANK", "0"}, {"LOCAL_RANK", "0"}})).listen_fd, 9);
}

TEST(World, OpenMpiOnOneMachineMeetsOnLoopback) {
  const World world = read(open_mpi);
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.size, 2);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.master_addr, "127.0.0.1");
  EXPECT_EQ(world.launcher, Launcher::open_mpi);
  EXPECT_GE(world.master_port, 20000);
  EXPECT_LT(world.master_port, 30000);
}

TEST(World, PortFollowsFromTheJob) {
  const int port = read(open_mpi).master_port;
  EXPECT_EQ(
      read(with(open_mpi, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}})).master_port,
      port);
  EXPECT_NE(read(with(open_mpi, {{"PMIX_NAMESPACE", "12346"}})).master_port, port);
  EXPECT_EQ(read(with(open_mpi, {{"MASTER_PORT", "4444"}})).master_port, 4444);
}

TEST(World, OpenMpiOnManyMachinesNeedsAnAddress) {
  EXPECT_THAT(refusal(with(open_mpi, {{"OMPI_COMM_WORLD_SIZE", "4"}})),
              AllOf(HasSubstr("OMPI_COMM_WORLD_SIZE = 4"), HasSubstr("set MASTER_ADDR")));
  EXPECT_EQ(read(with(open_mpi, {{"OMPI_COMM_WORLD_SIZE", "4"}, {"MASTER_ADDR", "head"}})).master_addr,
            "head");
}

TEST(World, Mpich) {
  const World world = read(mpich);
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.size, 2);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.launcher, Launcher::mpich);
}

TEST(World, SlurmStep) {
  const World world = read(slurm);
  EXPECT_EQ(world.rank, 5);
  EXPECT_EQ(world.size, 7);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 3);
  EXPECT_EQ(world.master_addr, "gpu07");
  EXPECT_EQ(world.launcher, Launcher::slurm);
}

TEST(World, SlurmBatchScriptIsOneRank) { EXPECT_EQ(read(without(slurm, "SLURM_STEP_ID")).size, 1); }

TEST(World, MpirunInsideASlurmStepIsMpiruns) {
  EXPECT_EQ(read(with(slurm, open_mpi)).launcher, Launcher::open_mpi);
}

TEST(World, TorchrunInsideASlurmStepIsTorchruns) {
  EXPECT_EQ(read(with(with(slurm, torchrun), {{"TORCHELASTIC_RUN_ID", "x"}})).rank, 3);
}

TEST(World, HandSetRanksOnLoopbackAreAllHere) {
  const World world =
      read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "5000"}});
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 2);
}

TEST(World, HandSetRanksElsewhereAreOneAMachine) {
  const World world =
      read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "5000"}});
  EXPECT_EQ(world.local_rank, 0);
}

struct Refused {
  const char* name;
  Variables variables;
  std::vector<const char*> words;
};

class WorldRefuses : public testing::TestWithParam<Refused> {};

TEST_P(WorldRefuses, SayingWhich) {
  const std::string message = refusal(GetParam().variables);
  for (const char* word : GetParam().words) EXPECT_THAT(message, HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(
    Contradictions, WorldRefuses,
    testing::Values(
        Refused{
            "RankBeyondSize", with(torchrun, {{"RANK", "4"}}), {"RANK = 4", "WORLD_SIZE = 4", "another job"}},
        Refused{"SizeWithoutRank", {{"WORLD_SIZE", "2"}}, {"WORLD_SIZE is set", "RANK is not"}},
        Refused{"RankWithoutSize", {{"RANK", "0"}}, {"RANK is set", "WORLD_SIZE is not"}},
        Refused{"RankIsNoNumber", with(torchrun, {{"RANK", "one"}}), {"RANK = 'one'", "whole number"}},
        Refused{"RankIsNegative", with(torchrun, {{"RANK", "-1"}}), {"RANK = '-1'"}},
        Refused{
            "SizeIsHuge", with(torchrun, {{"WORLD_SIZE", "99999999999"}}), {"WORLD_SIZE = '99999999999'"}},
        Refused{"LocalRankBeyondLocalSize", with(torchrun, {{"LOCAL_RANK", "2"}}), {"LOCAL_RANK = 2"}},
        Refused{"PortIsNone", with(torchrun, {{"MASTER_PORT", "70000"}}), {"MASTER_PORT = 70000"}},
        Refused{"NoPort", without(torchrun, "MASTER_PORT"), {"MASTER_PORT is not set"}},
        Refused{"NoAddress", without(torchrun, "MASTER_ADDR"), {"MASTER_ADDR is not set"}},
        Refused{
            "TwoLaunchers", with(torchrun, open_mpi), {"RANK = 3", "OMPI_COMM_WORLD_RANK = 1", "disagree"}},
        Refused{"TwoMpis", with(with(open_mpi, mpich), {{"PMI_SIZE", "3"}}), {"PMI_SIZE = 3", "disagree"}},
        Refused{"HandSetAgainstSlurm", with(slurm, torchrun), {"SLURM_PROCID = 5", "disagree"}},
        Refused{
            "MpiSizeMissing", without(open_mpi, "OMPI_COMM_WORLD_SIZE"), {"OMPI_COMM_WORLD_SIZE is not"}}),
    [](const auto& row) { return row.param.name; });

TEST(World, AgreeingLaunchersAreFine) {
  const World world = read(with(slurm, {{"PMI_RANK", "5"}, {"PMI_SIZE", "7"}, {"MASTER_ADDR", "h"}}));
  EXPECT_EQ(world.rank, 5);
}

TEST(SlurmLists, FirstHost) {
  const std::vector<std::pair<const char*, const char*>> rows = {
      {"one", "one"},           {"a,b", "a"},        {"gpu[07-12,40],login", "gpu07"}, {"gpu[7,9]", "gpu7"},
      {"r[1-2]n[3-4]", "r1n3"}, {"n[5]-ib", "n5-ib"}};
  for (const auto& [list, host] : rows) EXPECT_EQ(first_slurm_host(list), host) << list;
  EXPECT_THROW(first_slurm_host(""), ConfigError);
  EXPECT_THROW(first_slurm_host("gpu[1-"), ConfigError);
}

TEST(SlurmLists, Counts) {
  EXPECT_EQ(slurm_count_at("4(x2),3", 0), 4);
  EXPECT_EQ(slurm_count_at("4(x2),3", 1), 4);
  EXPECT_EQ(slurm_count_at("4(x2),3", 2), 3);
  EXPECT_EQ(slurm_count_at("4(x2),3", 3), std::nullopt);
  EXPECT_EQ(slurm_count_at("8", 0), 8);
  EXPECT_EQ(slurm_count_at("", 0), std::nullopt);
  EXPECT_EQ(slurm_count_at("x(y", 0), std::nullopt);
}

}  // namespace
}  // namespace duoka::comm
