// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/files.h"

#include <csignal>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "duoka/core/error.h"
#include "support/test_files.h"

namespace duoka {
namespace {

namespace fs = std::filesystem;
using duoka::testing::message_of;
using duoka::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

size_t num_entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// Runs `body` in a child process that may not write files longer than `limit` bytes, as under `ulimit -f`.
/// Returns its exit status: what `body` returned, or 128 + the signal that ended it.
int run_with_file_limit(rlim_t limit, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);  // the default ends the process
    const rlimit both{limit, limit};
    ::setrlimit(RLIMIT_FSIZE, &both);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(MappedFile, ShowsTheBytesAndSurvivesMoves) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "hello");
  MappedFile first = MappedFile::open(folder / "a");
  const std::byte* address = first.bytes().data();
  MappedFile second = std::move(first);
  MappedFile third;
  third = std::move(second);
  EXPECT_EQ(third.text(), "hello");
  EXPECT_EQ(third.bytes().data(), address);
  EXPECT_EQ(third.path(), folder / "a");
}

TEST(MappedFile, KeepsItsBytesWhenTheFileIsReplaced) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "old");
  const MappedFile file = MappedFile::open(folder / "a");
  write_file_atomically(folder / "a", "newer");
  EXPECT_EQ(file.text(), "old");
  EXPECT_EQ(read_text_file(folder / "a"), "newer");
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "empty", "");
  EXPECT_TRUE(MappedFile::open(folder / "empty").bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNoFileByName) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<SystemError>([&] { MappedFile::open(folder / "gone"); }),
              AllOf(HasSubstr((folder / "gone").string()), HasSubstr("No such file")));
  EXPECT_THAT(message_of<SystemError>([&] { MappedFile::open(folder.path()); }), HasSubstr("a folder"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of<SystemError>([&] { MappedFile::open(folder / "pipe"); }),
              HasSubstr("not a regular file"));
}

TEST(ReadTextFile, ReadsFilesWithoutASizeAndKeepsItsLimit) {
  EXPECT_THAT(read_text_file("/proc/self/status"), HasSubstr("Pid:"));
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "12345");
  EXPECT_EQ(read_text_file(folder / "a", 5), "12345");
  EXPECT_THAT(message_of<SystemError>([&] { read_text_file(folder / "a", 4); }),
              AllOf(HasSubstr((folder / "a").string()), HasSubstr("larger than the 4 B")));
}

TEST(WithoutBom, TakesOnlyAMarkInFront) {
  EXPECT_EQ(without_bom("\xEF\xBB\xBFkey"), "key");
  EXPECT_EQ(without_bom("key\xEF\xBB\xBF"), "key\xEF\xBB\xBF");
  EXPECT_EQ(without_bom("\xEF\xBB"), "\xEF\xBB");
}

TEST(AtomicFile, AppearsAtCommitOnly) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder / "a");
    file.write("one ");
    file.write("two");
    EXPECT_FALSE(fs::exists(folder / "a"));
    file.commit();
    EXPECT_EQ(read_text_file(folder / "a"), "one two");
    EXPECT_THROW(file.write("three"), StateError);
    EXPECT_THROW(file.commit(), StateError);
  }
  EXPECT_EQ(num_entries(folder.path()), 1u);
}

TEST(AtomicFile, LeavesTheOldFileWhenNotCommitted) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("half of the n");
  }
  EXPECT_EQ(read_text_file(folder / "a"), "old");
  EXPECT_EQ(num_entries(folder.path()), 1u);
}

TEST(AtomicFile, HasThePermissionsOfAnyNewFile) {
  const TemporaryFolder folder;
  const mode_t mask = ::umask(027);
  write_file_atomically(folder / "a", "x");
  ::umask(mask);
  EXPECT_EQ(static_cast<int>(fs::status(folder / "a").permissions()), 0640);
}

TEST(AtomicFile, NamesThePathItCannotCreate) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<SystemError>([&] { AtomicFile file(folder / "no" / "a"); }),
              AllOf(HasSubstr((folder / "no" / "a").string()), HasSubstr("No such file or directory")));
}

// Case F05: the second save does not fit. The limit's signal must not end the process.
TEST(AtomicFile, F05AFileTooLargeIsAnErrorAndTheOldOneStays) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "state", "old");
  const int status = run_with_file_limit(4096, [&] {
    const std::string large(100'000, 'x');
    try {
      write_file_atomically(folder / "state", large);
    } catch (const SystemError& error) {
      const std::string what = error.what();
      const bool is_said = what.find((folder / "state").string()) != what.npos &&
                           what.find("File too large") != what.npos && what.find("ulimit -f") != what.npos;
      write_file_atomically(folder / "after", "still writing");  // no signal was left pending
      return is_said ? 0 : 1;
    }
    return 2;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_text_file(folder / "state"), "old");
  EXPECT_EQ(read_text_file(folder / "after"), "still writing");
  EXPECT_EQ(num_entries(folder.path()), 2u);
}

TEST(AtomicDirectory, AppearsAtCommitOnlyWithAllInIt) {
  const TemporaryFolder folder;
  {
    AtomicDirectory directory(folder / "checkpoint-2/");
    write_file_atomically(directory.path() / "a", "1");
    fs::create_directory(directory.path() / "sub");
    write_file_atomically(directory.path() / "sub" / "b", "2");
    EXPECT_FALSE(fs::exists(folder / "checkpoint-2"));
    EXPECT_EQ(directory.final_path(), folder / "checkpoint-2");
    directory.commit();
    EXPECT_THROW(directory.commit(), StateError);
  }
  EXPECT_EQ(read_text_file(folder / "checkpoint-2" / "sub" / "b"), "2");
  EXPECT_EQ(num_entries(folder.path()), 1u);
}

TEST(AtomicDirectory, RemovesWhatWasNotCommittedAndWhatAKilledRunLeft) {
  const TemporaryFolder folder;
  {
    AtomicDirectory left(folder / "out");
    write_file_atomically(left.path() / "half", "x");
    AtomicDirectory directory(folder / "out");
    EXPECT_EQ(num_entries(directory.path()), 0u);
  }
  EXPECT_EQ(num_entries(folder.path()), 0u);
}

TEST(AtomicDirectory, RefusesAFolderThatIsThere) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "out");
  EXPECT_THAT(message_of<SystemError>([&] { AtomicDirectory directory(folder / "out"); }),
              HasSubstr("exists already"));
  EXPECT_THAT(message_of<SystemError>([&] { AtomicDirectory directory(folder / "no" / "out"); }),
              AllOf(HasSubstr((folder / "no" / "out").string()), HasSubstr("No such file")));
}

// Case F05 for a folder: the earlier one is whole, nothing of the failed one is left.
TEST(AtomicDirectory, F05AFailedSaveLeavesTheEarlierOne) {
  const TemporaryFolder folder;
  AtomicDirectory first(folder / "checkpoint-2");
  write_file_atomically(first.path() / "weights", "good");
  first.commit();
  const int status = run_with_file_limit(4096, [&] {
    try {
      AtomicDirectory second(folder / "checkpoint-4");
      write_file_atomically(second.path() / "weights", std::string(100'000, 'x'));
      second.commit();
    } catch (const SystemError&) {
      return 0;
    }
    return 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_text_file(folder / "checkpoint-2" / "weights"), "good");
  EXPECT_EQ(num_entries(folder.path()), 1u);
}

TEST(FreeBytes, AsksTheNearestFolderThatExists) {
  const TemporaryFolder folder;
  EXPECT_GT(free_bytes(folder / "not" / "there" / "yet"), 0);
}

TEST(IsWritableDir, IsTrueOfAFolderOnlyAndLeavesNothing) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "");
  EXPECT_TRUE(is_writable_dir(folder.path()));
  EXPECT_FALSE(is_writable_dir(folder / "file"));
  EXPECT_FALSE(is_writable_dir(folder / "gone"));
  EXPECT_FALSE(is_writable_dir("/proc"));  // a folder in which nobody, root included, makes files
  EXPECT_EQ(num_entries(folder.path()), 1u);
}

}  // namespace
}  // namespace duoka
