// SPDX-License-Identifier: Apache-2.0
// Layouts as a user asks for them: keys of `duoka train`, files that come out, what is refused.
#include <gmock/gmock.h>

#include "cli/cli_files.h"
#include "duoka/io/safetensors.h"

namespace duoka::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LayoutsTest : public ::testing::Test {
 protected:
  /// Three updates of four micro-batches of one row, whatever the cards. Exact reduction.
  Words train(const std::string& output, int num_cards, Words more) const {
    more.insert(more.end(),
                {"max_steps=3", "per_device_train_batch_size=1", "reduction=exact", "learning_rate=0.01",
                 "lora_dropout=0.1", "gradient_accumulation_steps=" + std::to_string(4 / num_cards),
                 "--cards", std::to_string(num_cards)});
    return shop_.train(output, more);
  }
  std::string bytes(const std::filesystem::path& name) const { return read_text_file(shop_ / name); }

  Workshop shop_;
};

TEST_F(LayoutsTest, AdapterIsTheSameFileFromAnyZeroStage) {
  const Outcome alone = run_duoka(train("alone", 1, {}));
  ASSERT_EQ(alone.exit_code, 0) << alone.all();
  for (const std::string stage : {"0", "1", "2", "3"}) {
    const Outcome shared = run_duoka(train("zero" + stage, 2, {"zero_stage=" + stage}));
    ASSERT_EQ(shared.exit_code, 0) << shared.all();
    for (const char* name : {"adapter_model.safetensors", "checkpoint-3/adapter_model.safetensors"})
      EXPECT_TRUE(bytes("zero" + stage + "/" + name) == bytes(std::string("alone/") + name))
          << stage << ' ' << name;
    const std::string spread = stage == "0" ? "\n" : "; data 2, ZeRO-" + stage + "\n";
    EXPECT_THAT(shared.err, AnyOf(HasSubstr("ranks       2 on CPU, over gloo" + spread),
                                  HasSubstr("ranks       2 on CPU, over gloo + cma" + spread)));
  }
}

TEST_F(LayoutsTest, AnAdapterWithWholeModulesGoesOnUnderZero3) {
  const Outcome first = run_duoka(train("first", 1, {"additional_target=lm_head,norm"}));
  ASSERT_EQ(first.exit_code, 0) << first.all();
  const Words on{"adapter_name_or_path=" + (shop_ / "first").string()};
  const Outcome alone = run_duoka(train("alone", 1, on));
  ASSERT_EQ(alone.exit_code, 0) << alone.all();
  const Outcome shared = run_duoka(train("shared", 2, {on[0], "zero_stage=3"}));
  ASSERT_EQ(shared.exit_code, 0) << shared.all();
  EXPECT_TRUE(bytes("shared/adapter_model.safetensors") == bytes("alone/adapter_model.safetensors"));
  EXPECT_FALSE(bytes("shared/adapter_model.safetensors") == bytes("first/adapter_model.safetensors"));
}

TEST_F(LayoutsTest, WholeModelIsTheSameFileAndACheckpointGoesOnAlone) {
  const Outcome alone = run_duoka(train("alone", 1, {"finetuning_type=full"}));
  ASSERT_EQ(alone.exit_code, 0) << alone.all();
  const Outcome shared =
      run_duoka(train("zero3", 4, {"finetuning_type=full", "zero_stage=3", "save_steps=2"}));
  ASSERT_EQ(shared.exit_code, 0) << shared.all();
  EXPECT_TRUE(bytes("zero3/model.safetensors") == bytes("alone/model.safetensors"));
  const Outcome rest = run_duoka(
      train("rest", 1,
            {"finetuning_type=full", "resume_from_checkpoint=" + (shop_ / "zero3/checkpoint-2").string()}));
  ASSERT_EQ(rest.exit_code, 0) << rest.all();
  EXPECT_TRUE(bytes("rest/model.safetensors") == bytes("alone/model.safetensors"));
}

TEST_F(LayoutsTest, TensorAndContextCardsWriteWholeFiles) {
  const Words full{"finetuning_type=full", "gradient_checkpointing=true"};
  const Outcome alone = run_duoka(train("alone", 1, full));
  ASSERT_EQ(alone.exit_code, 0) << alone.all();
  for (const std::string key : {"tensor_parallel_size=2", "context_parallel_size=2"}) {
    Words words = full;
    words.insert(words.end(), {key, "zero_stage=3"});
    const Outcome shared = run_duoka(train(key, 4, words));
    ASSERT_EQ(shared.exit_code, 0) << shared.all();
    EXPECT_EQ(bytes(key + "/model.safetensors").size(), bytes("alone/model.safetensors").size());
    EXPECT_EQ(bytes(key + "/config.json"), bytes("alone/config.json"));
  }
}

std::string line_of(const std::string& text, const std::string& start) {
  const size_t begin = text.find(start);
  return begin == text.npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

TEST_F(LayoutsTest, PipelineCardsWriteWholeFiles) {
  for (const std::string type : {"full", "lora"}) {
    const std::string weights = type == "full" ? "/model.safetensors" : "/adapter_model.safetensors";
    const Outcome alone = run_duoka(train("alone-" + type, 1, {"finetuning_type=" + type}));
    ASSERT_EQ(alone.exit_code, 0) << alone.all();
    for (const std::string schedule : {"1f1b", "interleaved", "zero_bubble"}) {
      const std::string out = type + "-" + schedule;
      const Outcome shared = run_duoka(
          train(out, 2,
                {"finetuning_type=" + type, "pipeline_parallel_size=2", "zero_stage=1",
                 "pipeline_schedule=" + schedule, "val_size=2", "eval_strategy=steps", "eval_steps=3"}));
      ASSERT_EQ(shared.exit_code, 0) << shared.all();
      EXPECT_THAT(shared.err, HasSubstr("; pipeline 2, " + schedule + ", ZeRO-1\n"));
      EXPECT_EQ(line_of(shared.err, "  trained "), line_of(alone.err, "  trained "));
      EXPECT_NE(line_of(shared.err, "  trained "), "");
      EXPECT_EQ(bytes(out + weights).size(), bytes("alone-" + type + weights).size());
    }
  }
}

TEST_F(LayoutsTest, PipelineCardsMayShareParametersToo) {
  const Words full{"finetuning_type=full", "learning_rate=0.001", "max_steps=3",
                   "per_device_train_batch_size=1"};
  const auto run = [&](const std::string& out, Words more) {
    more.insert(more.end(), full.begin(), full.end());
    const Outcome outcome = run_duoka(shop_.train(out, more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    return outcome.err;
  };
  const std::string alone = run("alone", {"gradient_accumulation_steps=4"});
  const std::string shared = run("shared", {"gradient_accumulation_steps=2", "pipeline_parallel_size=2",
                                            "zero_stage=3", "profiler_steps=1", "--cards", "4"});
  EXPECT_THAT(shared, HasSubstr("; data 2 x pipeline 2, 1f1b, ZeRO-3\n"));
  EXPECT_EQ(printed_losses(shared), printed_losses(alone));
  EXPECT_EQ(bytes("shared/model.safetensors").size(), bytes("alone/model.safetensors").size());
  EXPECT_THAT(bytes("shared/trace.json"), HasSubstr("wait for all_gather, "));
}

TEST_F(LayoutsTest, SizesThatCannotWorkAreRefusedOnceBeforeARankStarts) {
  const auto refused = [&](const std::string& cards, const Words& more) {
    Words words = more;
    words.insert(words.end(), {"--cards", cards});
    const Outcome outcome = run_duoka(shop_.train("out", words));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
    EXPECT_THAT(outcome.err, Not(HasSubstr("on rank")));
    return outcome.err;
  };
  EXPECT_THAT(refused("3", {"tensor_parallel_size=2"}),
              AllOf(HasSubstr("takes 2 ranks, which does not divide the 3"), HasSubstr("a multiple of 2")));
  EXPECT_THAT(
      refused("4", {"tensor_parallel_size=4"}),
      AllOf(HasSubstr("4 attention heads and 2 key-value heads"), HasSubstr("sizes that work: 1, 2")));
  EXPECT_THAT(refused("4", {"zero_stage=3", "zero_shard_size=3"}), HasSubstr("sizes that work: 1, 2, 4"));
  EXPECT_THAT(refused("2", {"zero_shard_size=2"}), HasSubstr("set zero_stage to 1, 2 or 3"));
  EXPECT_THAT(refused("2", {"zero_stage=4"}), HasSubstr("wanted 0, 1, 2 or 3"));
  EXPECT_THAT(refused("8", {"pipeline_parallel_size=8"}), HasSubstr("lower pipeline_parallel_size"));
  EXPECT_THAT(refused("2", {"pipeline_parallel_size=2", "pipeline_split=[1, 2]"}),
              HasSubstr("pipeline_split = 1, 2 adds up to 3"));
  EXPECT_THAT(refused("2", {"pipeline_parallel_size=2", "pipeline_split=[1, x]"}),
              HasSubstr("pipeline_split: found 'x'"));
  EXPECT_THAT(refused("2", {"pipeline_parallel_size=2", "pipeline_chunks=2"}),
              HasSubstr("set pipeline_schedule to interleaved"));
  EXPECT_FALSE(std::filesystem::exists(shop_ / "out"));
}

TEST_F(LayoutsTest, SizesThatDoNotFitTheRanksAreRefusedHoweverTheyWereStarted) {
  const auto refused = [&](const std::vector<std::string>& environment, const Words& more) {
    const Outcome outcome = run_duoka(shop_.train("out", more), {.environment = environment});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
    EXPECT_THAT(lines_of(outcome.err), ::testing::SizeIs(1)) << outcome.all();
    EXPECT_FALSE(std::filesystem::exists(shop_ / "cache")) << "tokenised before";
    return outcome.err;
  };
  EXPECT_THAT(
      refused({}, {"tensor_parallel_size=2"}),
      HasSubstr("tensor_parallel_size 2 takes 2 ranks, but only 1 is started; start 2 or a multiple of 2 "
                "(--cards N), or choose sizes whose product is 1\n"));
  EXPECT_THAT(refused({}, {"pipeline_parallel_size=2", "context_parallel_size=3"}),
              HasSubstr("pipeline_parallel_size 2 x context_parallel_size 3 takes 6 ranks, but only 1 is"));
  // Nobody listens there: it is said before the ranks meet.
  const std::vector<std::string> torchrun{"RANK=1",        "WORLD_SIZE=6",       "LOCAL_RANK=1",
                                          "MASTER_PORT=9", "LOCAL_WORLD_SIZE=6", "MASTER_ADDR=127.0.0.1"};
  EXPECT_THAT(refused(torchrun, {"tensor_parallel_size=2", "pipeline_parallel_size=2"}),
              AllOf(HasSubstr("takes 4 ranks, which does not divide the 6 started"),
                    HasSubstr("sizes whose product is one of 1, 2, 3, 6\n")));
  EXPECT_THAT(refused(torchrun, {"zero_stage=1", "zero_shard_size=4"}),
              HasSubstr("sizes that work: 1, 2, 3, 6"));
  EXPECT_THAT(refused({"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_LOCAL_RANK=0",
                       "OMPI_COMM_WORLD_LOCAL_SIZE=3"},
                      {"context_parallel_size=2"}),
              HasSubstr("takes 2 ranks, which does not divide the 3 started"));
}

TEST_F(LayoutsTest, KeysOfALayoutWithoutEffectAreNamed) {
  const auto warnings = [&](const std::string& cards, Words more) {
    more.insert(more.end(), {"max_steps=1", "overwrite_output_dir=true", "--cards", cards});
    const Outcome outcome = run_duoka(shop_.train("out", more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    std::string all;
    for (const std::string& line : lines_with(outcome.err, "warning: "))
      if (!line.starts_with("warning: save_steps")) all += line.substr(9) + "\n";
    return all;
  };
  EXPECT_EQ(warnings("1", {"zero_stage=1", "pipeline_schedule=gpipe", "reduction=exact"}),
            "pipeline_schedule changes nothing in this run (pipeline_parallel_size: 1)\n"
            "zero_stage changes nothing in this run (no other card has the same parameters)\n"
            "reduction changes nothing in this run (an update is one micro-batch)\n");
  EXPECT_EQ(warnings("1", {"reduction=exact", "gradient_accumulation_steps=2", "zero_shard_size=1"}),
            "zero_shard_size changes nothing in this run (zero_stage: 0)\n");
  EXPECT_EQ(warnings("2", {"zero_stage=2", "zero_shard_size=2"}),
            "zero_shard_size changes nothing in this run (as by default, of all 2 data-parallel cards)\n");
  EXPECT_EQ(warnings("2", {"zero_stage=2", "zero_shard_size=1"}),
            "zero_stage changes nothing in this run (zero_shard_size: 1 leaves each card its own)\n");
  EXPECT_EQ(warnings("2", {"zero_stage=1", "context_parallel_size=2"}), "") << "the two share the state";
  EXPECT_EQ(
      warnings("2", {"pipeline_parallel_size=2", "reduction=exact", "gradient_accumulation_steps=2"}),
      "reduction changes nothing in this run (a pipeline adds its micro-batches one after the other)\n"
      "reduction: exact: the bits still depend on pipeline_parallel_size: 2, which changes sums that it "
      "does not order\n");
  EXPECT_EQ(
      warnings("2", {"pipeline_parallel_size=2", "pipeline_schedule=gpipe"}),
      "pipeline_parallel_size: 2 with 1 micro-batch an update: the cards are idle for about 50 % of the "
      "time; with gradient_accumulation_steps: 8 for 11 %\n");
}

TEST_F(LayoutsTest, D04SizesThatDoNotDivideNameThoseThatDo) {
  const auto said = [&](const std::string& cards, const std::string& key) {
    const Outcome outcome = run_duoka(shop_.train("out", {key, "--cards", cards}));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
    EXPECT_THAT(outcome.err, Not(HasSubstr("on rank")));  // no rank was there that could have read weights
    return outcome.err;
  };
  const auto sizes =
      AllOf(HasSubstr("4 attention heads and 2 key-value heads"), HasSubstr("sizes that work: 1, 2"));
  EXPECT_THAT(said("3", "tensor_parallel_size=3"), AllOf(HasSubstr("tensor_parallel_size = 3"), sizes));
  EXPECT_THAT(said("4", "tensor_parallel_size=4"), AllOf(HasSubstr("tensor_parallel_size = 4"), sizes));
  // Embedding and head count as layers: three ranks can share two blocks, five cannot.
  EXPECT_THAT(said("5", "pipeline_parallel_size=5"),
              AllOf(HasSubstr("the model has 4"), HasSubstr("lower pipeline_parallel_size")));
  EXPECT_THAT(
      said("3", "tensor_parallel_size=2"),
      AllOf(HasSubstr("tensor_parallel_size 2"), HasSubstr("takes 2 ranks"), HasSubstr("the 3 started")));
}

/// tiny-llama with the 321 rows of the embedding and the head that case G04's adapter holds.
void write_model_of_321_rows(const std::filesystem::path& folder) {
  std::filesystem::copy(Workshop::case_file("models/tiny-llama"), folder);
  std::string config = read_text_file(folder / "config.json");
  const std::string rows = "\"vocab_size\": 320";
  write_file(folder / "config.json", config.replace(config.find(rows), rows.size(), "\"vocab_size\": 321"));
  const auto base = io::SafetensorsFile::open(Workshop::case_file("models/tiny-llama/model.safetensors"));
  const auto adapter =
      io::SafetensorsFile::open(Workshop::case_file("G04_adapter_new_token/adapter_model.safetensors"));
  std::vector<io::TensorSpec> specs;
  std::map<std::string, const io::TensorView*> sources;
  for (const io::TensorView& tensor : base.tensors()) {
    const auto* larger = adapter.find("base_model.model." + tensor.name);
    sources[tensor.name] = larger != nullptr ? larger : &tensor;
    specs.push_back({tensor.name, tensor.dtype, sources[tensor.name]->shape});
  }
  std::filesystem::remove(folder / "model.safetensors");
  io::SafetensorsWriter writer(folder / "model.safetensors", specs);
  for (const io::TensorSpec& spec : writer.tensors()) writer.write(spec.name, sources[spec.name]->bytes);
  writer.commit();
}

TEST_F(LayoutsTest, D04AVocabularyThatDoesNotDivideComesOutAsItWas) {
  const auto base = shop_ / "vocabulary_321";
  write_model_of_321_rows(base);
  std::vector<std::vector<std::string>> losses;
  for (const int cards : {1, 2}) {
    const std::string out = "on" + std::to_string(cards);
    const Outcome outcome = run_duoka(shop_.train(
        out,
        {"model_name_or_path=" + base.string(), "finetuning_type=full", "learning_rate=0.001", "max_steps=3",
         "tensor_parallel_size=" + std::to_string(cards), "--cards", std::to_string(cards)}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
    losses.push_back(printed_losses(outcome.err));
    const auto file = io::SafetensorsFile::open(shop_ / out / "model.safetensors");
    for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"})
      EXPECT_EQ(file.find(name)->shape, (std::vector<int64_t>{321, 32})) << name;
    EXPECT_THAT(read_text_file(shop_ / out / "config.json"), HasSubstr("\"vocab_size\": 321"));
  }
  ASSERT_EQ(losses[0].size(), 3u);
  // A row of padding in the softmax would show in the third digit.
  EXPECT_EQ(losses[0], losses[1]);
}

}  // namespace
}  // namespace duoka::testing
