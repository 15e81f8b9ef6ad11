// SPDX-License-Identifier: Apache-2.0
// main() of every test program: GoogleTest's, but a program in which a case was skipped does not count as
// passed.
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  constexpr int skipped = 77;  // SKIP_RETURN_CODE in cmake/DuokaTargets.cmake
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  return status == 0 && testing::UnitTest::GetInstance()->skipped_test_count() > 0 ? skipped : status;
}
