// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_files.h"
#include "duoka/core/error.h"

namespace duoka::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Seen {
  FileLayout layout;
  std::vector<std::string> rows;
  std::vector<int64_t> lines;
  std::vector<int64_t> defect_lines;
};

Seen seen(const RowFile& file) {
  Seen result{file.layout(), {}, {}, {}};
  for (int64_t i = 0; i < file.num_rows(); ++i) {
    result.rows.emplace_back(file.row(i));
    result.lines.push_back(file.line(i));
  }
  for (const FileDefect& defect : file.defects()) result.defect_lines.push_back(defect.line);
  return result;
}

class Rows : public ::testing::Test {
 protected:
  Seen of(const std::string& content, const std::string& name = "data.bin") {
    return seen(RowFile(write_into(folder_, name, content)));
  }
  std::string error(const std::string& content, const std::string& name = "data.bin") {
    try {
      RowFile(write_into(folder_, name, content));
    } catch (const DataError& e) {
      return e.what();
    }
    return "no error";
  }
  TemporaryFolder folder_;
};

TEST_F(Rows, LinesWithBlankOnesCounted) {
  const Seen s = of("\n{\"a\": 1}\n\n   \n  {\"b\": 2}  \n\n");
  EXPECT_EQ(s.layout, FileLayout::json_lines);
  EXPECT_THAT(s.rows, ElementsAre("{\"a\": 1}", "{\"b\": 2}"));
  EXPECT_THAT(s.lines, ElementsAre(2, 5));
}

TEST_F(Rows, ByteOrderMarkAndCarriageReturnsAreNotPartOfRows) {
  const Seen s = of("\xef\xbb\xbf{\"a\": 1}\r\n\r\n{\"b\": 2}\r\n");
  EXPECT_THAT(s.rows, ElementsAre("{\"a\": 1}", "{\"b\": 2}"));
  EXPECT_THAT(s.lines, ElementsAre(1, 3));
}

TEST_F(Rows, LastLineNeedsNoLineEnd) {
  EXPECT_THAT(of("{\"a\": 1}\n{\"b\"").rows, ElementsAre("{\"a\": 1}", "{\"b\""));
}

TEST_F(Rows, ArrayOverManyLines) {
  const Seen s = of("\xef\xbb\xbf \n[\n {\"a\": 1,\n  \"b\": [1, 2]},\r\n {\"c\": \"]},{\\\"\"}\n , 3 ]\n");
  EXPECT_EQ(s.layout, FileLayout::json_array);
  EXPECT_THAT(s.rows, ElementsAre("{\"a\": 1,\n  \"b\": [1, 2]}", "{\"c\": \"]},{\\\"\"}", "3"));
  EXPECT_THAT(s.lines, ElementsAre(3, 5, 6));
  EXPECT_THAT(s.defect_lines, IsEmpty());
}

TEST_F(Rows, ArrayDefectsHaveTheirLine) {
  EXPECT_THAT(of("[{\"a\": 1},\n{\"b\": 2},\n]").defect_lines, ElementsAre(3));
  EXPECT_THAT(of("[{\"a\": 1},\n,{\"b\": 2}]").defect_lines, ElementsAre(2));
  EXPECT_THAT(of("[{\"a\": 1},\n{\"b\": 2}]\n\nmore").defect_lines, ElementsAre(4));
  EXPECT_THAT(of("[{\"a\": 1},\n").defect_lines, ElementsAre(2));
}

TEST_F(Rows, ArrayCutInsideARowKeepsTheTornRow) {
  const Seen s = of("[{\"a\": 1},\n{\"b\": \"x");
  EXPECT_THAT(s.rows, ElementsAre("{\"a\": 1}", "{\"b\": \"x"));
  EXPECT_THAT(s.lines, ElementsAre(1, 2));
}

TEST_F(Rows, ArrayWithAMissingCommaGivesOneBadRow) {
  EXPECT_THAT(of("[{\"a\": 1}\n{\"b\": 2}, {\"c\": 3}]").rows,
              ElementsAre("{\"a\": 1}\n{\"b\": 2}", "{\"c\": 3}"));
}

TEST_F(Rows, ContentDecidesNotTheName) {
  EXPECT_EQ(of("[{}]", "x.jsonl").layout, FileLayout::json_array);
  EXPECT_EQ(of("{\"a\": 1}\n", "x.txt").layout, FileLayout::json_lines);
  EXPECT_EQ(of("Call me Ishmael.\n", "x").layout, FileLayout::plain_text);
  EXPECT_EQ(of("[1] Introduction\n", "x").layout, FileLayout::plain_text);
  EXPECT_EQ(of("{curly} prose\n", "x.txt").layout, FileLayout::plain_text);
}

TEST_F(Rows, NameDecidesWhereContentIsNeither) {
  EXPECT_EQ(of("oops\n{\"a\": 1}\n", "x.jsonl").layout, FileLayout::json_lines);
}

TEST_F(Rows, PlainTextKeepsLeadingSpace) {
  const Seen s = of("one\r\n\n  two \n \t\nthree");
  EXPECT_EQ(s.layout, FileLayout::plain_text);
  EXPECT_THAT(s.rows, ElementsAre("one", "  two ", "three"));
  EXPECT_THAT(s.lines, ElementsAre(1, 3, 5));
}

TEST_F(Rows, LinesStayRightFarIntoAFile) {
  std::string content;
  for (int i = 0; i < 2000; ++i) content += i % 7 == 0 ? "\n{\"a\": 1}\n" : "{\"a\": 1}\n";
  const Seen s = of(content);
  int64_t expected = 0;
  for (int i = 0; i < 2000; ++i) {
    expected += i % 7 == 0 ? 2 : 1;
    ASSERT_EQ(s.lines[static_cast<size_t>(i)], expected) << "row " << i;
  }
}

TEST_F(Rows, LongRunsOfBackslashesAreLinear) {
  const std::string escapes(1 << 20, '\\');
  const Seen s = of("[\"" + escapes + "\", \"" + escapes + "\\\"\"]");
  EXPECT_EQ(s.rows.size(), 2u);
}

TEST_F(Rows, DeepNestingIsOnlyCounted) {
  const std::string deep = "{\"x\": " + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_EQ(of("[" + deep + ", {}]").rows.size(), 2u);
}

TEST_F(Rows, NothingToReadIsAnError) {
  EXPECT_THAT(error(""), HasSubstr("data.bin: no rows: the file is empty"));
  EXPECT_THAT(error(" \n\t\r\n"), HasSubstr("the file is empty"));
  EXPECT_THAT(error("\xef\xbb\xbf"), HasSubstr("the file is empty"));
  EXPECT_THAT(error("[ \n ]"), HasSubstr("the array is empty"));
}

TEST_F(Rows, OtherKindsAreRefusedByName) {
  EXPECT_THAT(error("PAR1\x15\x04"), AllOf(HasSubstr("a Parquet file"), HasSubstr("convert it")));
  EXPECT_THAT(error("\x1f\x8b\x08"), HasSubstr("gzip"));
  EXPECT_THAT(error("\xff\xfe{"), HasSubstr("UTF-16"));
}

// Of 64 rows one is remembered: those between are looked for.
TEST_F(Rows, ManyRowsAreFoundInAnyOrder) {
  constexpr int64_t num_rows = 300;
  std::string lines, array = "[\n";
  for (int64_t i = 0; i < num_rows; ++i) {
    const std::string row = R"({"text": "a, ] \" b", "row": )" + std::to_string(i) + "}";
    lines += row + (i % 3 == 0 ? "  \r\n \n" : "\n");
    array += row + (i % 5 == 0 ? ", ,\n" : ",\n");
  }
  for (const bool is_array : {false, true}) {
    const RowFile file(write_into(folder_, "many.json", is_array ? array + "0]" : lines));
    ASSERT_EQ(file.num_rows(), num_rows + (is_array ? 1 : 0));
    for (int64_t i = num_rows - 1; i >= 0; --i) {
      EXPECT_TRUE(file.row(i).starts_with('{') && file.row(i).ends_with(" " + std::to_string(i) + "}"));
      EXPECT_EQ(file.line(i), is_array ? i + 2 : i + 1 + (i + 2) / 3);
    }
  }
}

TEST_F(Rows, MissingFileIsTheSystemsError) { EXPECT_THROW(RowFile("/nowhere/at/all.jsonl"), SystemError); }

}  // namespace
}  // namespace duoka::data
