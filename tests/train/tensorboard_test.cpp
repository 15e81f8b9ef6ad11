// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/tensorboard.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "support/test_files.h"
#include "train/crc32c.h"

namespace duoka::train {
namespace {

// RFC 3720, appendix B.4.
static_assert(crc32c(std::string_view("123456789")) == 0xe3069283);
static_assert(crc32c(std::string_view("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
                                      32)) == 0x8a9136aa);

template <class Number>
Number read_number(const std::string& bytes, size_t at) {
  Number value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// The data of each record, after checking both checksums.
std::vector<std::string> records_of(const std::string& bytes) {
  std::vector<std::string> records;
  size_t at = 0;
  while (at < bytes.size()) {
    const auto length = read_number<uint64_t>(bytes, at);
    EXPECT_EQ(read_number<uint32_t>(bytes, at + 8), masked_crc32c(std::string_view(bytes).substr(at, 8)));
    records.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(read_number<uint32_t>(bytes, at + 12 + length), masked_crc32c(records.back()));
    at += 16 + length;
  }
  return records;
}

TEST(EventFile, HasAVersionAndOneRecordPerScalar) {
  const testing::TemporaryFolder out;
  EventFile events(out / "runs");
  events.add_scalar("train/loss", 2.5, 300);
  const auto records = records_of(read_text_file(events.path()));  // while it is open: flushed
  ASSERT_EQ(records.size(), 2u);
  EXPECT_THAT(records[0], ::testing::EndsWith(std::string("\x1a\x0d") + "brain.Event:2"));
  // After the wall time (field 1, 9 bytes): step 300 as varint, then summary { value { tag, simple_value } }.
  const std::string wanted = std::string("\x10\xac\x02") + "\x2a\x13" + "\x0a\x11" + "\x0a\x0a" +
                             "train/loss" + std::string("\x15\x00\x00\x20\x40", 5);
  EXPECT_EQ(records[1].substr(9), wanted);
}

TEST(EventFile, SaysWhereItCannotWrite) {
  const testing::TemporaryFolder out;
  testing::write_file(out / "file", "");
  EXPECT_THAT(testing::message_of<SystemError>([&] { EventFile(out / "file"); }),
              ::testing::HasSubstr("file"));
}

}  // namespace
}  // namespace duoka::train
