// SPDX-License-Identifier: Apache-2.0
// Files where something goes wrong: no permission, a folder that goes, a process that is killed, two at once.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <iterator>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "duoka/core/files.h"
#include "support/test_files.h"

namespace duoka {
namespace {

namespace fs = std::filesystem;
using duoka::testing::message_of;
using duoka::testing::names_in;
using duoka::testing::TemporaryFolder;
using duoka::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What `body` returns in a process of its own.
std::string in_another_process(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string said = body();
    ::_exit(::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said(4096, '\0');
  const ssize_t size = ::read(ends[0], said.data(), said.size());
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  said.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  return said;
}

/// The same of a user without privileges, for whom permissions hold.
std::string as_plain_user(const std::function<std::string()>& body) {
  return in_another_process([&] {
    constexpr uid_t nobody = 65534;
    if (::geteuid() == 0 && ::setuid(nobody) != 0) ::_exit(1);
    return body();
  });
}

std::string system_error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const SystemError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(NoPermission, FilesThatCannotBeReadAreNamed) {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  write_file(folder / "secret", "x");
  fs::permissions(folder / "secret", fs::perms::none);
  const auto wanted = AllOf(HasSubstr((folder / "secret").string()), HasSubstr("Permission denied"));
  EXPECT_THAT(as_plain_user([&] { return system_error_of([&] { read_text_file(folder / "secret"); }); }),
              wanted);
  EXPECT_THAT(as_plain_user([&] { return system_error_of([&] { MappedFile::open(folder / "secret"); }); }),
              wanted);
}

TEST(NoPermission, FoldersThatCannotBeWrittenAreNamed) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  fs::permissions(folder.path(), fs::perms(0555));
  const auto file =
      as_plain_user([&] { return system_error_of([&] { write_file_atomically(folder / "a", "new"); }); });
  EXPECT_THAT(file,
              AllOf(HasSubstr("cannot create " + (folder / "a").string()), HasSubstr("Permission denied")));
  const auto directory =
      as_plain_user([&] { return system_error_of([&] { AtomicDirectory out(folder / "out"); }); });
  EXPECT_THAT(directory,
              AllOf(HasSubstr("cannot create " + (folder / "out").string()), HasSubstr("Permission denied")));
  EXPECT_EQ(as_plain_user([&] { return is_writable_dir(folder.path()) ? "yes" : "no"; }), "no");
  EXPECT_EQ(read_text_file(folder / "a"), "old");
}

TEST(ReadTextFile, OfAFolderIsAnError) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<SystemError>([&] { read_text_file(folder.path()); }),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("Is a directory")));
}

TEST(SystemErrors, OfAFullDiskSayWhatToDo) {
  const auto message = [](int code) {
    return system_error_of([&] { detail::throw_system_error("write", "runs/a", code); });
  };
  EXPECT_EQ(message(ENOSPC),
            "cannot write runs/a: No space left on device; free some space or choose another folder");
  EXPECT_THAT(message(EDQUOT), HasSubstr("your quota"));
  EXPECT_THAT(message(EFBIG), HasSubstr("ulimit -f"));
  EXPECT_EQ(message(EIO), "cannot write runs/a: Input/output error");
}

TEST(Descriptor, ClosesOnceWhereverItWentTo) {
  const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) != -1; };
  const int fd = ::open("/dev/null", O_RDONLY);
  {
    detail::Descriptor first(fd);
    detail::Descriptor second(std::move(first));
    detail::Descriptor third;
    third = std::move(second);
    EXPECT_EQ(third.get(), fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(AtomicFile, FolderThatGoesMeanwhileIsAnErrorAndNoMore) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "runs");
  {
    AtomicFile file(folder / "runs" / "a");
    file.write("one");
    fs::remove_all(folder / "runs");
    file.write("two");
    EXPECT_THAT(message_of<SystemError>([&] { file.commit(); }),
                AllOf(HasSubstr((folder / "runs" / "a").string()), HasSubstr("No such file")));
  }
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

TEST(AtomicFile, DoesNotTakeTheNameOfAFolder) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "a");
  write_file(folder / "a" / "kept", "x");
  EXPECT_THAT(message_of<SystemError>([&] { write_file_atomically(folder / "a", "new"); }),
              HasSubstr("Is a directory"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
  EXPECT_THAT(names_in(folder / "a"), ElementsAre("kept"));
}

TEST(AtomicFile, InTheWorkingFolderNeedsNoFolderInItsName) {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  write_file_atomically("a", "here");
  EXPECT_EQ(read_text_file("a"), "here");
  { AtomicDirectory("out").commit(); }
  fs::current_path(before);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a", "out"));
}

TEST(AtomicFile, ReadersSeeAWholeOneWhileWritersReplaceIt) {
  const TemporaryFolder folder;
  const auto content = [](char c) { return std::string(100'000, c); };
  write_file_atomically(folder / "a", content('0'));
  std::atomic<bool> is_done = false;
  std::vector<std::thread> writers;
  for (const char c : {'1', '2'})
    writers.emplace_back([&, c] {
      for (int i = 0; i < 10; ++i) write_file_atomically(folder / "a", content(c));
    });
  std::thread end([&] {
    for (std::thread& writer : writers) writer.join();
    is_done = true;
  });
  int num_torn = 0, num_read = 0;
  for (; !is_done || num_read == 0; ++num_read) {
    const std::string seen = read_text_file(folder / "a");
    num_torn += seen == content(seen.empty() ? 'x' : seen[0]) ? 0 : 1;
  }
  end.join();
  EXPECT_EQ(num_torn, 0) << "of " << num_read;
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

TEST(AtomicFile, LeavesTheSignalMaskAsItWas) {
  const TemporaryFolder folder;
  sigset_t limit, mask;
  sigemptyset(&limit);
  sigaddset(&limit, SIGXFSZ);
  for (const int how : {SIG_BLOCK, SIG_UNBLOCK}) {
    ::pthread_sigmask(how, &limit, nullptr);
    write_file_atomically(folder / "a", "x");
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    EXPECT_EQ(sigismember(&mask, SIGXFSZ), how == SIG_BLOCK ? 1 : 0);
  }
}

TEST(AtomicDirectory, OfAKilledProcessIsNotThereAndTheNextTakesItsPlace) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicDirectory out(folder / "checkpoint-2");
    write_file(out.path() / "weights", "half");
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(fs::exists(folder / "checkpoint-2"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre(".checkpoint-2.partial"));
  AtomicDirectory next(folder / "checkpoint-2");
  write_file(next.path() / "other", "whole");
  next.commit();
  EXPECT_THAT(names_in(folder.path()), ElementsAre("checkpoint-2"));
  EXPECT_THAT(names_in(folder / "checkpoint-2"), ElementsAre("other"));
}

TEST(AtomicDirectory, OneThatAppearedMeanwhileStays) {
  const TemporaryFolder folder;
  {
    AtomicDirectory ours(folder / "out");
    write_file(ours.path() / "ours", "x");
    fs::create_directory(folder / "out");
    write_file(folder / "out" / "theirs", "x");
    EXPECT_THAT(message_of<SystemError>([&] { ours.commit(); }),
                AllOf(HasSubstr("rename to " + (folder / "out").string()), HasSubstr("not empty")));
  }
  EXPECT_THAT(names_in(folder.path()), ElementsAre("out"));
  EXPECT_THAT(names_in(folder / "out"), ElementsAre("theirs"));
}

TEST(AtomicDirectory, RefusesTheNameOfAFileAndOfALinkToNothing) {
  const TemporaryFolder folder;
  write_file(folder / "file", "x");
  fs::create_symlink("nowhere", folder / "link");
  for (const char* name : {"file", "link"})
    EXPECT_THAT(message_of<SystemError>([&] { AtomicDirectory out(folder / name); }),
                HasSubstr("exists already"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("file", "link"));
}

/// Two folders side by side, each with a file that names it.
void make_two_folders(const fs::path& folder) {
  for (const char* name : {"shown", "new"}) {
    fs::create_directory(folder / name);
    write_file(folder / name / "file", name);
  }
}

TEST(ReplaceFolder, TheNameIsThereAtAllTimes) {
  const TemporaryFolder folder;
  make_two_folders(folder.path());
  if (::renameat2(AT_FDCWD, (folder / "shown").c_str(), AT_FDCWD, (folder / "new").c_str(),
                  RENAME_EXCHANGE) != 0)
    GTEST_SKIP() << "this file system cannot exchange two names";
  std::atomic<bool> is_done = false;
  std::atomic<int> num_looks = 0, num_missing = 0;
  std::thread looking([&] {
    for (; !is_done; ++num_looks)
      if (::access((folder / "shown/file").c_str(), F_OK) != 0) ++num_missing;
  });
  while (num_looks == 0) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) {
    fs::create_directories(folder / "next");
    write_file(folder / "next/file", std::to_string(i));
    replace_folder(folder / "next", folder / "shown");
    EXPECT_EQ(read_text_file(folder / "shown/file"), std::to_string(i));
  }
  is_done = true;
  looking.join();
  EXPECT_EQ(num_missing, 0) << "of " << num_looks;
  EXPECT_THAT(names_in(folder.path()), ElementsAre("new", "shown"));
}

/// From here on renameat2() is refused in this process, as file systems refuse it that know no exchange.
bool refuse_exchange() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_renameat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(ReplaceFolder, WorksWhereNamesCannotBeExchanged) {
  const TemporaryFolder folder;
  make_two_folders(folder.path());
  const std::string said = in_another_process([&]() -> std::string {
    if (!refuse_exchange()) return "no filter";
    replace_folder(folder / "new", folder / "shown");
    return system_error_of([&] { replace_folder(folder / "gone", folder / "shown"); });
  });
  if (said == "no filter") GTEST_SKIP() << "system calls cannot be filtered here";
  EXPECT_THAT(said, AllOf(HasSubstr("cannot replace"), HasSubstr("No such file")));
  EXPECT_EQ(read_text_file(folder / "shown/file"), "new");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("shown")) << "the name came back after the failure";
}

TEST(ReplaceFolder, AFailureLeavesBoth) {
  const TemporaryFolder folder;
  make_two_folders(folder.path());
  EXPECT_THAT(message_of<SystemError>([&] { replace_folder(folder / "gone", folder / "shown"); }),
              HasSubstr((folder / "shown").string()));
  EXPECT_THAT(message_of<SystemError>([&] { replace_folder(folder / "new", folder / "gone"); }),
              HasSubstr((folder / "gone").string()));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("new", "shown"));
}

}  // namespace
}  // namespace duoka
