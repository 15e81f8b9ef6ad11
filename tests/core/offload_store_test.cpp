// SPDX-License-Identifier: Apache-2.0
#include "core/offload_store.h"

#include <csignal>
#include <cstdio>
#include <functional>
#include <random>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/free_space.h"
#include "core/tensor_bytes.h"
#include "duoka/core/error.h"
#include "support/test_files.h"

namespace duoka {
namespace {

using duoka::testing::message_of;
using duoka::testing::names_in;
using duoka::testing::TemporaryFolder;
using duoka::testing::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(FreeSpace, GivesHolesAgainAndJoinsNeighbours) {
  FreeSpace space(4096);
  EXPECT_EQ(space.take(1), 0);
  EXPECT_EQ(space.take(5000), 4096);
  EXPECT_EQ(space.take(4096), 12288);
  EXPECT_EQ(space.end(), 16384);
  space.give_back(4096, 5000);
  EXPECT_EQ(space.take(3), 4096);  // the first page of the hole
  space.give_back(0, 1);
  space.give_back(4096, 3);
  EXPECT_EQ(space.take(12288), 0) << "three pages beside each other are one hole";
  EXPECT_EQ(space.end(), 16384);
}

TEST(FreeSpace, NeverGivesAPageTwice) {
  struct Part {
    int64_t offset, bytes;
  };
  FreeSpace space(4096);
  std::mt19937 random(3);
  std::vector<Part> used;
  for (int i = 0; i < 2000; ++i) {
    if (used.size() > 20 || (!used.empty() && random() % 2 == 0)) {
      const size_t which = random() % used.size();
      space.give_back(used[which].offset, used[which].bytes);
      used.erase(used.begin() + static_cast<int64_t>(which));
    }
    const int64_t bytes = 1 + static_cast<int64_t>(random() % 40000);
    const Part part{space.take(bytes).value(), bytes};
    for (const Part& other : used)
      ASSERT_TRUE(part.offset + bytes <= other.offset || other.offset + other.bytes <= part.offset);
    used.push_back(part);
  }
  EXPECT_LT(space.end(), int64_t{21} * 3 * 40960) << "holes are not used";
}

at::Tensor numbers(int64_t count, double first = 0) { return at::arange(count, at::kDouble) + first; }

TEST(TensorBytes, LeaveShapeAndDtypeAndComeBack) {
  const at::Tensor x = numbers(12).view({3, 4}), alias = x.slice(0, 1, 2);
  at::Tensor bytes = take_bytes(x);
  EXPECT_EQ(bytes.sizes(), at::IntArrayRef({96}));
  EXPECT_FALSE(has_bytes(x));
  EXPECT_EQ(x.sizes(), at::IntArrayRef({3, 4}));
  EXPECT_EQ(x.nbytes(), 96U);
  give_bytes(x, std::move(bytes));
  EXPECT_TRUE(at::equal(x.view(-1), numbers(12)));
  EXPECT_EQ(alias[0][3].item<double>(), 7);
}

class OffloadFileTest : public ::testing::Test {
 protected:
  std::shared_ptr<OffloadStore> store(const std::string& name = "") const {
    return make_offload_store(at::kCPU, folder_ / name);
  }
  TemporaryFolder folder_;
};

TEST_F(OffloadFileTest, BringsBackWhatWasPutLast) {
  const auto file = store();
  std::vector<std::unique_ptr<OffloadPlace>> places;
  for (int i = 0; i < 20; ++i) {
    places.push_back(file->reserve(8 * (100 + 37 * i)));
    places.back()->put(bytes_of(numbers(100 + 37 * i, i)));
  }
  for (int i = 0; i < 20; i += 2) places[static_cast<size_t>(i)]->put(bytes_of(numbers(100 + 37 * i, -i)));
  for (int i = 19; i >= 0; --i) {
    OffloadPlace& place = *places[static_cast<size_t>(i)];
    if (i > 0) places[static_cast<size_t>(i - 1)]->fetch();
    const at::Tensor wanted = bytes_of(numbers(100 + 37 * i, i % 2 == 0 ? -i : i));
    const at::Tensor found = place.take();
    EXPECT_TRUE(at::equal(found, wanted)) << i;
    found.zero_();
    EXPECT_TRUE(at::equal(place.take(), wanted)) << i << ": what is taken is not the place's";
  }
}

TEST_F(OffloadFileTest, GivesMemoryUpAndCountsBytes) {
  const auto file = store();
  const auto place = file->reserve(8000);
  at::Tensor x = numbers(1000);
  const auto memory = x.storage().getWeakStorageImpl();
  place->put(bytes_of(x));
  x.reset();
  place->wait_until_out();
  EXPECT_TRUE(memory.expired());
  place->fetch();
  EXPECT_EQ(place->take().numel(), 8000);
  EXPECT_EQ(file->traffic().bytes_out, 8000);
  EXPECT_EQ(file->traffic().bytes_in, 8000);
  EXPECT_THROW(place->put(bytes_of(numbers(3))), StateError);
}

TEST_F(OffloadFileTest, HasNoNameAndMakesItsFolder) {
  const auto file = store("new/folder");
  const auto place = file->reserve(80);
  place->put(bytes_of(numbers(10)));
  place->wait_until_out();
  EXPECT_THAT(names_in(folder_ / "new/folder"), IsEmpty());
}

TEST_F(OffloadFileTest, PlacesMayGoWithWorkUnderWayAndOutliveTheStore) {
  auto file = store();
  for (int i = 0; i < 50; ++i) file->reserve(80'000)->put(bytes_of(numbers(10'000, i)));
  const auto place = file->reserve(80);
  place->put(bytes_of(numbers(10)));
  file.reset();
  EXPECT_TRUE(at::equal(place->take(), bytes_of(numbers(10))));
}

/// What `body` throws in a process of its own.
std::string error_in_another_process(const std::function<void()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string said = "nothing was thrown";
    try {
      body();
    } catch (const SystemError& error) {
      said = error.what();
    }
    ::_exit(::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said(4096, '\0');
  said.resize(static_cast<size_t>(std::max<ssize_t>(::read(ends[0], said.data(), said.size()), 0)));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return said;
}

TEST_F(OffloadFileTest, AFileThatCannotGrowIsAnErrorOfTheNextCallAndOfEachAfterIt) {
  const std::string said = error_in_another_process([&] {
    const rlimit limit{10'000, 10'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto file = store();
    const auto first = file->reserve(8000), second = file->reserve(8000);
    first->put(bytes_of(numbers(1000)));
    first->wait_until_out();
    second->put(bytes_of(numbers(1000)));
    try {
      second->wait_until_out();
    } catch (const SystemError&) {
      first->take();
    }
  });
  EXPECT_THAT(said, AllOf(HasSubstr("cannot write offloaded tensors in " + folder_.path().string()),
                          HasSubstr("File too large"), HasSubstr("ulimit -f")));
}

TEST_F(OffloadFileTest, AFolderThatCannotBeMadeOrWrittenIsNamed) {
  write_file(folder_ / "file", "");
  EXPECT_THAT(message_of<SystemError>([&] { store("file/below"); }), HasSubstr("file/below"));
  std::filesystem::create_directory(folder_ / "closed");
  std::filesystem::permissions(folder_ / "closed", std::filesystem::perms(0555));
  const std::string said = error_in_another_process([&] {
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(1);
    store("closed");
  });
  EXPECT_THAT(said, AllOf(HasSubstr("offloaded tensors"), HasSubstr((folder_ / "closed").string()),
                          HasSubstr("Permission denied")));
}

}  // namespace
}  // namespace duoka
