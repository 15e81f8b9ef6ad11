// SPDX-License-Identifier: Apache-2.0
// Cases A01 to A08 through the command: what data does, row by row, in `data inspect` and in a training.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>

#include "cli/cli_files.h"

namespace duoka::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class DataTest : public ::testing::Test {
 protected:
  Outcome inspect(const std::string& name, const Words& more = {}) const {
    return run_duoka(shop_.inspect(Workshop::case_file(name), more));
  }
  Outcome train(const std::filesystem::path& data, const Words& more = {}) const {
    Words words{"dataset=" + data.string(), "max_steps=1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_duoka(shop_.train("out", words));
  }

  Workshop shop_;
};

TEST_F(DataTest, A01ByteOrderMarkAndWindowsLineEnds) {
  const Outcome outcome = inspect("A01_bom_crlf.jsonl");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out, HasSubstr("rows read 3, used 3, refused 0"));
  EXPECT_THAT(outcome.out, HasSubstr("assistant⏎[s][at][ o][n][ the][ mat][<|im_end|>]\n"));
  EXPECT_THAT(outcome.out, HasSubstr("user⏎two⏎lines<|im_end|>"));
  // The CR within the third answer stays; those of the line ends are gone.
  EXPECT_EQ(count_of(outcome.out, "\\x0d"), 1) << outcome.out;
  EXPECT_EQ(train(Workshop::case_file("A01_bom_crlf.jsonl")).exit_code, 0);
}

struct Shape {
  const char* file;
  int num_used;      ///< 0: the whole file is refused.
  const char* says;  ///< For what is refused: place and reason.
};

class A03Shapes : public DataTest, public ::testing::WithParamInterface<Shape> {};

TEST_P(A03Shapes, AreUsedOrRefusedByLine) {
  const Shape shape = GetParam();
  const std::string name = std::string("A03/") + shape.file;
  const Outcome outcome = inspect(name);
  SCOPED_TRACE(outcome.all());
  EXPECT_THAT(outcome.out + outcome.err, HasSubstr(shape.says));
  EXPECT_THAT(outcome.out, AllOf(Not(HasSubstr("[null]")), Not(HasSubstr("[None]"))));
  if (shape.num_used == 0) {
    EXPECT_EQ(outcome.exit_code, 3);
    EXPECT_THAT(outcome.out, IsEmpty());
  } else {
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.out, HasSubstr(", used " + std::to_string(shape.num_used) + ", "));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, A03Shapes,
    ::testing::Values(
        Shape{"array.json", 2, "rows read 2"}, Shape{"array_named.jsonl", 2, "rows read 2"},
        Shape{"blank_lines.jsonl", 2, "rows read 2"}, Shape{"no_final_newline.jsonl", 2, "rows read 2"},
        Shape{"trailing_comma.jsonl", 1, "trailing_comma.jsonl:1: refused: not JSON: a comma"},
        Shape{"torn_last_line.jsonl", 1, "torn_last_line.jsonl:2: refused: not JSON: ends inside a string"},
        Shape{"number_output.jsonl", 1, ":2: refused: key 'output': found number, wanted string"},
        Shape{"list_output.jsonl", 1, ":2: refused: key 'output': found array, wanted string"},
        Shape{"missing_output.jsonl", 1, ":2: refused: key 'output' is missing"},
        Shape{"missing_input_ok.jsonl", 1, "rows read 1"},
        Shape{"null_output.jsonl", 1, ":2: refused: key 'output': found null, wanted string"},
        Shape{"empty_file.jsonl", 0, "empty_file.jsonl: no rows: the file is empty"},
        Shape{"duplicate_key.jsonl", 0, "line 1: key 'output' occurs twice"},
        Shape{"lone_surrogate.jsonl", 0, "half a surrogate pair"},
        Shape{"escaped_emoji.jsonl", 1, "[\\xf0][\\x9f][\\x98][\\x80][<|im_end|>]"},
        Shape{"nul_char.jsonl", 1, "[b][\\x00][c][<|im_end|>]"}),
    [](const auto& shape) {
      std::string name = shape.param.file;
      return name.substr(0, name.find('.'));
    });

TEST_F(DataTest, A03RefusedRowsAreCountedAndTheOthersTrain) {
  const Outcome outcome = train(Workshop::case_file("A03/null_output.jsonl"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rows read 2, used 1, refused 1"), HasSubstr("warning: "),
                                 HasSubstr("null_output.jsonl:2: refused: ")));
}

TEST_F(DataTest, A03StrictStopsAtTheFirstBadRow) {
  const Outcome outcome = train(Workshop::case_file("A03/null_output.jsonl"), {"strict=true"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("null_output.jsonl:2: "));
}

TEST_F(DataTest, A03LinesCountBlankOnes) {
  write_file(shop_ / "blank.jsonl",
             "\n{\"instruction\": \"a\", \"output\": \"b\"}\n\n\n{\"instruction\": \"a\"}\n");
  const Outcome outcome = run_duoka(shop_.inspect(shop_ / "blank.jsonl"));
  EXPECT_THAT(outcome.out, HasSubstr("blank.jsonl:5: refused: ")) << outcome.all();
}

TEST_F(DataTest, A04NullContentPartsAndToolCalls) {
  const Outcome outcome = inspect("A04_tool_calls_null.jsonl");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out, HasSubstr(":1: warning: the template does not render tool_calls"));
  EXPECT_THAT(outcome.out, HasSubstr("[the][ c][at][<|im_end|>]"));
  EXPECT_THAT(outcome.out, HasSubstr(":3: refused: key 'content' of turn 2: found null, wanted string"));
  EXPECT_THAT(lines_with(outcome.out, "<|bos|>"),
              Each(AllOf(Not(HasSubstr("null")), Not(HasSubstr("None")))));
}

TEST_F(DataTest, A05TurnsOfRealDialogues) {
  const Outcome outcome = inspect("A05_sharegpt_turns.jsonl");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out, HasSubstr("rows read 8, used 6, refused 2"));
  EXPECT_THAT(outcome.out,
              HasSubstr("A05_sharegpt_turns.jsonl:6: refused: key 'from' of turn 1: unknown role "
                        "'hummany'; wanted system, human/user or gpt/assistant"));
  EXPECT_THAT(outcome.out, HasSubstr("A05_sharegpt_turns.jsonl:7: refused: an empty conversation"));
  EXPECT_THAT(outcome.out, HasSubstr("<|bos|><|im_start|>system⏎"));
  // Two turns of the user in a row stay two; an answer that opens the dialogue stays, and trains.
  EXPECT_THAT(outcome.out, HasSubstr("user⏎the cat<|im_end|><|im_start|>user⏎and the dog<|im_end|>"));
  EXPECT_THAT(outcome.out, HasSubstr("<|bos|><|im_start|>assistant⏎[he][l][l][o][<|im_end|>]"));
}

TEST_F(DataTest, A06PromptThatFillsTheCutoffIsRefusedAndTheLossStaysFinite) {
  const Outcome outcome = inspect("A06_cutoff.jsonl", {"cutoff_len=32"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("rows read 4, used 3, refused 1, cut 1; longest 137 tokens"),
                                 HasSubstr(":1: refused: prompt fills the cutoff")));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr(": 32 tokens, 17 trained"), HasSubstr(": 18 tokens, 3 trained"),
                                 HasSubstr(": 16 tokens, 1 trained")));
  const Outcome trained = train(Workshop::case_file("A06_cutoff.jsonl"), {"cutoff_len=32"});
  ASSERT_EQ(trained.exit_code, 0) << trained.all();
  EXPECT_GT(std::stod(printed_losses(trained.err).at(0)), 1);
}

TEST_F(DataTest, A06FileWithoutAUsableRowIsAnErrorBeforeTheModelIsLoaded) {
  // The weights are not this model's, and that is not what is complained about.
  std::filesystem::create_directory(shop_ / "model");
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy(Workshop::case_file("models/tiny-llama") / name, shop_ / "model" / name);
  std::filesystem::copy(Workshop::case_file("F06_safetensors/01_ok.safetensors"),
                        shop_ / "model/model.safetensors");
  const Outcome outcome = train(Workshop::case_file("A06_all_bad.jsonl"),
                                {"cutoff_len=32", "model_name_or_path=" + (shop_ / "model").string()});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.all();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("A06_all_bad.jsonl: 0 of 3 rows usable"), HasSubstr("line 1: "),
                                 HasSubstr("prompt fills the cutoff")));
  EXPECT_FALSE(std::filesystem::exists(shop_ / "out"));
}

TEST_F(DataTest, A07VeryLongRowIsCutWithItsTrueLengthReported) {
  std::string rows = R"({"messages": [{"role": "user", "content": ")";
  for (int i = 0; i < 700'000; ++i) rows += "the cat sat ";
  rows += "\"}, {\"role\": \"assistant\", \"content\": \"ok\"}]}\n";
  for (int i = 0; i < 3; ++i)
    rows += R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ok"}]})"
            "\n";
  write_file(shop_ / "long.jsonl", rows);
  const int64_t plain_bytes = inspect("rows7.jsonl").peak_bytes;
  const Outcome outcome = run_duoka(shop_.inspect(shop_ / "long.jsonl"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("rows read 4, used 3, refused 1"),
                                 HasSubstr("long.jsonl:1: refused: "), HasSubstr("prompt fills the cutoff")));
  EXPECT_THAT(outcome.out,
              ::testing::ContainsRegex("among the first 2048 of [0-9],[0-9]{3},[0-9]{3} tokens"));
  EXPECT_LT(outcome.cpu_seconds, 30);
  EXPECT_LT(outcome.peak_bytes - plain_bytes, int64_t{1} << 30);
}

TEST_F(DataTest, A07DeepNestingIsARefusedRow) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  write_file(shop_ / "deep.jsonl",
             "{\"instruction\": \"a\", \"output\": \"b\"}\n{\"instruction\": \"a\", \"output\": "
             "\"b\", \"unused\": " +
                 deep + "}\n");
  const Outcome outcome = run_duoka(shop_.inspect(shop_ / "deep.jsonl"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("used 1, refused 1"), HasSubstr("deep.jsonl:2: refused: "), HasSubstr("deep")));
}

TEST_F(DataTest, A08PreferencePairsAreRefusedByName) {
  const Outcome outcome = train(Workshop::case_file("A08_pairs.jsonl"));
  EXPECT_EQ(outcome.exit_code, 3) << outcome.all();
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("A08_pairs.jsonl: 0 of 5 rows usable"), HasSubstr("preference pair"),
                    HasSubstr("there is no preference training here")));
}

TEST_F(DataTest, RefusedRowsAreShownOnceAndAllOnStdout) {
  const Outcome outcome = inspect("A03/null_output.jsonl");
  EXPECT_EQ(count_of(outcome.out + outcome.err, "refused: "), 1) << outcome.all();
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST_F(DataTest, SecondLookComesFromTheTokenCache) {
  EXPECT_EQ(train(Workshop::case_file("rows7.jsonl")).exit_code, 0);
  const Outcome again = train(Workshop::case_file("rows7.jsonl"), {"overwrite_output_dir=true"});
  EXPECT_THAT(again.err, HasSubstr("(from the token cache)")) << again.all();
}

TEST_F(DataTest, AChangedTemplateIsSeenByAStartFromTheTokenCache) {
  const std::filesystem::path form = shop_ / "form.jinja", rows = Workshop::case_file("rows7.jsonl");
  const std::string head = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '";
  const std::string tail = "' + m['content'] + '<|im_end|>' }}{% endfor %}";
  const auto start = [&] { return train(rows, {"template=" + form.string(), "overwrite_output_dir=true"}); };
  write_file(form, head + "\\n" + tail);
  // The first makes the cache, the second checks it, the third takes it as checked.
  for (int i = 0; i < 3; ++i) {
    const Outcome outcome = start();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    EXPECT_EQ(count_of(outcome.err, "(from the token cache)"), i == 0 ? 0 : 1) << outcome.all();
    std::this_thread::sleep_for(std::chrono::milliseconds(60));  // files count once they are older than that
  }
  write_file(form, head + ":" + tail);
  const Outcome changed = start();
  EXPECT_EQ(changed.exit_code, 0) << changed.all();
  EXPECT_THAT(changed.err, Not(HasSubstr("(from the token cache)")));
}

TEST_F(DataTest, NameOfATemplateIsWarnedOfAtEachStart) {
  const std::filesystem::path rows = Workshop::case_file("rows7.jsonl");
  for (int i = 0; i < 3; ++i) {
    const Outcome outcome = train(rows, {"template=llama3", "overwrite_output_dir=true"});
    EXPECT_EQ(count_of(outcome.err, "warning: template: 'llama3' is no .jinja file"), 1) << outcome.all();
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
}

}  // namespace
}  // namespace duoka::testing
