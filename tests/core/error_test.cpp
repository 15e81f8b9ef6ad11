// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/error.h"

#include <new>

#include <gtest/gtest.h>

#include "support/test_files.h"

namespace duoka {
namespace {

using duoka::testing::message_of;

template <class E>
void expect_kind(const char* kind, int exit_code) {
  try {
    throw E("what");
  } catch (const Error& error) {
    EXPECT_STREQ(error.kind(), kind);
    EXPECT_EQ(error.exit_code(), exit_code);
    EXPECT_STREQ(error.what(), "what");
  }
}

TEST(Error, KindsTellTheExitCode) {
  expect_kind<ConfigError>("ConfigError", 2);
  expect_kind<DataError>("DataError", 3);
  expect_kind<FormatError>("FormatError", 4);
  expect_kind<CommError>("CommError", 5);
  expect_kind<StateError>("StateError", 6);
  expect_kind<SystemError>("SystemError", 7);
}

template <class E>
class Within : public ::testing::Test {};
using Kinds = ::testing::Types<ConfigError, DataError, FormatError, CommError, StateError, SystemError>;
TYPED_TEST_SUITE(Within, Kinds);

TYPED_TEST(Within, KeepsTheClassAndPutsTheContextsInFront) {
  const auto fail = [] { throw TypeParam("no closing brace"); };
  EXPECT_EQ(message_of<TypeParam>([&] { within("training", [&] { within("reading rows.jsonl", fail); }); }),
            "while training: while reading rows.jsonl: no closing brace");
}

TEST(WithinOthers, MakesAStateErrorOfWhatIsNotOurs) {
  EXPECT_EQ(message_of<StateError>([] { within("adding", [] { throw std::out_of_range("index 3"); }); }),
            "while adding: index 3");
  EXPECT_THROW(within("adding", [] { throw std::bad_alloc(); }), StateError);
}

TEST(WithinOthers, LeavesWhatIsNoExceptionAlone) {
  EXPECT_THROW(within("adding", [] { throw 7; }), int);  // NOLINT: nobody's error, so nobody's message
}

TEST(WithinOthers, GivesTheResultAsItIs) {
  int here = 1;
  int& same = within("looking", [&]() -> int& { return here; });
  EXPECT_EQ(&same, &here);
  EXPECT_EQ(*within("making", [] { return std::make_unique<int>(5); }), 5) << "a result that only moves";
  within("doing", [&] { here = 2; });
  EXPECT_EQ(here, 2);
}

}  // namespace
}  // namespace duoka
