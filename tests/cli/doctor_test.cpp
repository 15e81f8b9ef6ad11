// SPDX-License-Identifier: Apache-2.0
#include "duoka/cli/doctor.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/machine.h"
#include "cli/nvml.h"
#include "cli/versions.h"
#include "cli/wire_check.h"
#include "duoka/core/error.h"

namespace duoka::cli {
namespace {

using testing::HasSubstr;

TEST(Doctor, FindsThatTrainingCanRunHere) {
  std::ostringstream out;
  EXPECT_EQ(doctor(out, {.backend = "gloo"}), 0) << out.str();
  for (const char* part : {"cards", "driver", "libtorch", "CUDA", "cuDNN", "NCCL", "cores", "memory", "disk",
                           "over Gloo", "8 bytes", "64 MiB", "training can run here"})
    EXPECT_THAT(out.str(), HasSubstr(part));
  EXPECT_TRUE(std::regex_search(out.str(), std::regex("\n  64 MiB +[1-9][0-9]* MB/s\n"))) << out.str();
  EXPECT_TRUE(std::regex_search(out.str(), std::regex("\n  8 bytes +[0-9]+ us\n"))) << out.str();
}

TEST(Doctor, NoPlaceForFilesIsAFailureWithWhatToDo) {
  std::ostringstream out;
  EXPECT_EQ(doctor(out, {.backend = "gloo", .output_dir = "/proc/nowhere"}), 1);
  EXPECT_THAT(out.str(), HasSubstr("to do:    no files can be made in '/proc/nowhere'"));
}

/// An environment variable for as long as it lives.
class SetVariable final {
 public:
  SetVariable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~SetVariable() { ::unsetenv(name_); }
  SetVariable(const SetVariable&) = delete;
  SetVariable& operator=(const SetVariable&) = delete;

 private:
  const char* name_;
};

TEST(Doctor, EnvironmentThatRanksWouldStumbleOverIsSaid) {
  for (const auto& [name, value, says] : std::initializer_list<std::array<const char*, 3>>{
           {"WORLD_SIZE", "2", "to do:    WORLD_SIZE is set but RANK is not"},
           {"GLOO_SOCKET_IFNAME", "nope0", "to do:    GLOO_SOCKET_IFNAME = 'nope0' names no network"}}) {
    const SetVariable variable(name, value);
    std::ostringstream out;
    EXPECT_EQ(doctor(out, {.backend = "gloo"}), 1);
    EXPECT_THAT(out.str(), HasSubstr(says));
  }
}

TEST(Doctor, BackendThatIsNotInThisBuildFailsWithWhatToDo) {
  if (!ask_driver().cards.empty()) GTEST_SKIP() << "this machine has cards";
  std::ostringstream out;
  EXPECT_EQ(doctor(out, {.backend = "nccl"}), 1);
  EXPECT_THAT(out.str(), HasSubstr("training cannot run here yet"));
  EXPECT_THAT(out.str(), HasSubstr("to do:    use backend=gloo here"));
}

TEST(Doctor, UnknownBackendIsRefused) {
  std::ostringstream out;
  EXPECT_THROW(doctor(out, {.backend = "mpi"}), ConfigError);
}

TEST(WireCheck, MeasuresRightSums) {
  const WireCheck check = check_wires(false);
  EXPECT_EQ(check.trouble, "");
  EXPECT_GT(check.small_seconds, 0);
  EXPECT_GT(check.large_seconds, 0);
  EXPECT_GT(check.megabytes_a_second(), 1);
}

TEST(Machine, ReadsMeminfo) {
  const std::string meminfo = "MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:    2048 kB\n";
  EXPECT_EQ(meminfo_bytes(meminfo, "MemTotal"), 16384 * 1024);
  EXPECT_EQ(meminfo_bytes(meminfo, "MemAvailable"), 2048 * 1024);
  EXPECT_EQ(meminfo_bytes(meminfo, "Mem"), 0);
}

TEST(Machine, NumbersAreConsistent) {
  const Machine machine = look_at_machine();
  EXPECT_GE(machine.usable_cores, 1);
  EXPECT_LE(machine.usable_cores, machine.allowed_cores);
  EXPECT_LE(machine.allowed_cores, machine.num_cores);
  EXPECT_GT(machine.total_bytes, 0);
  EXPECT_LE(machine.available_bytes, machine.total_bytes);
}

TEST(Machine, DiskOfAFolderYetToBeMadeIsThatOfItsParent) {
  const auto parent = std::filesystem::temp_directory_path();
  EXPECT_GT(free_disk_bytes((parent / "not" / "made" / "yet").string()), 0);
  EXPECT_TRUE(is_writable((parent / "not" / "made" / "yet").string()));
  EXPECT_FALSE(is_writable("/proc/nowhere"));
}

TEST(Versions, AreWrittenAsTheirMakersDo) {
  EXPECT_EQ(nccl_version_text(23007), "2.30.7");
  EXPECT_EQ(cudnn_version_text(91200), "9.12.0");
  EXPECT_EQ(cuda_version_text(13020), "13.2");
  EXPECT_EQ(cuda_version_text(12080), "12.8");
  EXPECT_THAT(find_versions().libtorch, testing::MatchesRegex("2\\.[0-9]+\\..*"));
}

}  // namespace
}  // namespace duoka::cli
