// SPDX-License-Identifier: Apache-2.0
// Every other command: what it prints and writes, its help, its exit code.
#include <bit>
#include <cstring>
#include <memory>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/cli_files.h"
#include "duoka/cli/train_arguments.h"

namespace duoka::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A safetensors file as its header and the bytes behind it.
struct Safetensors {
  explicit Safetensors(const fs::path& path) {
    const std::string all = read_text_file(path);
    uint64_t size = 0;
    std::memcpy(&size, all.data(), sizeof size);
    header = json::parse(all.substr(8, size));
    header.erase("__metadata__");
    data = all.substr(8 + size);
  }
  float bf16(const std::string& name, size_t index) const {
    const auto begin = header.at(name).at("data_offsets").at(0).get<size_t>();
    uint16_t bits = 0;
    std::memcpy(&bits, data.data() + begin + 2 * index, sizeof bits);
    return std::bit_cast<float>(uint32_t{bits} << 16);
  }

  json header;
  std::string data;
};

Outcome generate(const Words& more, const std::string& model = Workshop::model_word()) {
  Words words{"generate", model};
  words.insert(words.end(), more.begin(), more.end());
  return run_duoka(words);
}

double eval_loss(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  return json::parse(outcome.out)["eval_loss"];
}

/// Case B03: a model trained on one row, until it says just that.
class TaughtModel : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shop_ = std::make_unique<Workshop>();
    const Outcome outcome = run_duoka(shop_->train(
        "model", {"dataset=" + Workshop::case_file("B03_one_row.jsonl").string(), "finetuning_type=full",
                  "max_steps=200", "learning_rate=1e-3", "lr_scheduler_type=constant", "save_strategy=no"}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
    EXPECT_LT(std::stod(printed_losses(outcome.err).back()), 0.05);
  }
  static void TearDownTestSuite() { shop_.reset(); }
  static std::string model_word() { return "model_name_or_path=" + (*shop_ / "model").string(); }

  static std::unique_ptr<Workshop> shop_;
};
std::unique_ptr<Workshop> TaughtModel::shop_;

TEST_F(TaughtModel, GenerateStopsAtTheEndOfTheTurnWhichIsNotPrinted) {
  const Outcome outcome = generate({"prompt=the cat", "max_new_tokens=50"}, model_word());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_EQ(outcome.out, "sat\n");
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST_F(TaughtModel, GenerateStopsWithoutAGenerationConfigToo) {
  fs::copy(*shop_ / "model", *shop_ / "plain", fs::copy_options::recursive);
  fs::remove(*shop_ / "plain/generation_config.json");
  const std::string plain = "model_name_or_path=" + (*shop_ / "plain").string();
  EXPECT_EQ(generate({"prompt=the cat", "max_new_tokens=50"}, plain).out, "sat\n");
}

TEST_F(TaughtModel, ChatAnswersEachLineOfAPipe) {
  const Outcome outcome = run_duoka({"chat", model_word(), "max_new_tokens=20"},
                                    {.input = "the cat\n/clear\n\nthe cat\n/exit\nnever\n"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_EQ(outcome.out, "sat\nsat\n");  // no prompt signs: nobody is asked
  EXPECT_EQ(run_duoka({"chat", model_word()}, {.input = ""}).out, "");
}

TEST(Generate, LengthIsBoundedAndRawContinuesPlainText) {
  const Outcome chat = generate({"prompt=the cat", "max_new_tokens=6"});
  const Outcome raw = generate({"prompt=the cat", "max_new_tokens=6", "raw=true"});
  EXPECT_EQ(chat.exit_code, 0) << chat.all();
  EXPECT_EQ(raw.exit_code, 0) << raw.all();
  EXPECT_NE(chat.out, raw.out);
  EXPECT_TRUE(
      generate({"prompt=the cat", "max_new_tokens=12", "raw=true"}).out.starts_with(raw.out.substr(0, 2)))
      << "the likeliest tokens do not depend on how many are asked for";
}

/// A prompt is taken as it stands, though other values of the command line are YAML.
TEST(Generate, PromptIsVerbatim) {
  const auto answer = [](const std::string& prompt) {
    const Outcome outcome = generate({"prompt=" + prompt, "max_new_tokens=6", "raw=true"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    return outcome.out;
  };
  EXPECT_NE(answer("the cat # sat"), answer("the cat"));
  EXPECT_NE(answer("the\n\ncat"), answer("the cat"));
  EXPECT_NE(answer("\"the cat\""), answer("the cat"));
  for (const char* prompt : {"the cat: sat", "[the cat", "null", "{", "- a", "'tis"}) answer(prompt);
}

TEST(Generate, DrawsAreThoseOfTheSeed) {
  const auto drawn = [](const std::string& seed) {
    return generate({"prompt=the cat", "max_new_tokens=12", "raw=true", "do_sample=true", "temperature=1.5",
                     "top_p=1", "seed=" + seed})
        .out;
  };
  const std::string first = drawn("3");
  EXPECT_EQ(drawn("3"), first);
  EXPECT_NE(drawn("4"), first);
}

TEST(Generate, WhatIsMissingIsNamed) {
  const Outcome no_prompt = run_duoka({"generate", Workshop::model_word()});
  EXPECT_EQ(no_prompt.exit_code, 2);
  EXPECT_THAT(no_prompt.err, HasSubstr("not given: prompt"));
  const Outcome no_model = generate({"prompt=a"}, "model_name_or_path=/no/such/model");
  EXPECT_EQ(no_model.exit_code, 2);
  EXPECT_THAT(no_model.err, HasSubstr("there is nothing at '/no/such/model'"));
  const Outcome no_folder_of_a_model = generate({"prompt=a"}, "model_name_or_path=/proc/self/fd");
  EXPECT_EQ(no_folder_of_a_model.exit_code, 2);
  EXPECT_THAT(no_folder_of_a_model.err, HasSubstr("'/proc/self/fd' has no config.json"));
  const Outcome bad_option = generate({"prompt=a", "temprature=0.5"});
  EXPECT_EQ(bad_option.exit_code, 2);
  EXPECT_THAT(bad_option.err, HasSubstr("nearest is 'temperature'"));
}

class MergeTest : public ::testing::Test {
 protected:
  Outcome merge(const std::string& model, const Words& more = {}) const {
    Words words{"merge", model, "adapter_name_or_path=" + Workshop::case_file("G01_adapter").string(),
                "export_dir=" + (shop_ / "merged").string()};
    words.insert(words.end(), more.begin(), more.end());
    return run_duoka(words);
  }

  Workshop shop_;
};

TEST_F(MergeTest, MergedModelIsTheBaseWithItsAdapter) {
  const Outcome outcome = merge(Workshop::model_word());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_EQ(outcome.out, "wrote " + (shop_ / "merged").string() + "\n");
  EXPECT_THAT(names_in(shop_ / "merged"), Each(Not(HasSubstr("adapter"))));
  EXPECT_THAT(names_in(shop_.path()), Each(Not(HasSubstr("partial"))));
  const fs::path row = shop_.check_row(), base = Workshop::case_file("models/tiny-llama");
  const double adapted = eval_loss(run_duoka(
      shop_.eval(base, row, {"adapter_name_or_path=" + Workshop::case_file("G01_adapter").string()})));
  EXPECT_NEAR(eval_loss(run_duoka(shop_.eval(shop_ / "merged", row))), adapted, 1e-5 * adapted);
  EXPECT_GT(std::abs(eval_loss(run_duoka(shop_.eval(base, row))) - adapted), 1e-3)
      << "the adapter does nothing";
}

TEST_F(MergeTest, G05MergedModelKeepsTheDtypeOfItsBase) {
  const json expected = json::parse(read_text_file(Workshop::case_file("G05_expected.json")));
  ASSERT_EQ(run_duoka({"export", Workshop::model_word(), "export_dir=" + (shop_ / "bf16").string(),
                       "export_dtype=bfloat16"})
                .exit_code,
            0);
  const Outcome outcome = merge("model_name_or_path=" + (shop_ / "bf16").string());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  const Safetensors merged(shop_ / "merged/model.safetensors");
  EXPECT_EQ(merged.data.size(), expected["tensor_bytes_bf16"].get<size_t>());
  for (const auto& item : merged.header.items()) EXPECT_EQ(item.value()["dtype"], "BF16") << item.key();
  const json config = json::parse(read_text_file(shop_ / "merged/config.json"));
  EXPECT_EQ(config.value("torch_dtype", config.value("dtype", "")), expected["config_dtype"]);
  const auto& first = expected["q_proj_layer0_[0][0:4]_rounded_once"];
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_NEAR(merged.bf16("model.layers.0.self_attn.q_proj.weight", i), first[i].get<double>(), 1e-7) << i;
}

TEST_F(MergeTest, G05DtypeCanBeAskedFor) {
  const Outcome outcome = merge(Workshop::model_word(), {"export_dtype=bfloat16"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_EQ(Safetensors(shop_ / "merged/model.safetensors").data.size(), 78'144u);
}

TEST_F(MergeTest, FolderThatExistsIsReplacedOnlyWhenAskedAndAModel) {
  ASSERT_EQ(merge(Workshop::model_word(), {"export_dtype=bfloat16"}).exit_code, 0);
  const auto bytes = fs::file_size(shop_ / "merged/model.safetensors");
  const Outcome refused = merge(Workshop::model_word());
  EXPECT_EQ(refused.exit_code, 2) << refused.all();
  EXPECT_THAT(refused.err, AllOf(HasSubstr("export_dir: "), HasSubstr("overwrite_export_dir=true")));
  EXPECT_EQ(fs::file_size(shop_ / "merged/model.safetensors"), bytes);
  const Outcome replaced = merge(Workshop::model_word(), {"overwrite_export_dir=true"});
  EXPECT_EQ(replaced.exit_code, 0) << replaced.all();
  EXPECT_GT(fs::file_size(shop_ / "merged/model.safetensors"), bytes);
  EXPECT_THAT(names_in(shop_.path()), ElementsAre("merged"));
}

TEST_F(MergeTest, FolderOfOtherThingsIsNeverReplaced) {
  fs::create_directory(shop_ / "merged");
  write_file(shop_ / "merged/notes.txt", "mine");
  const Outcome outcome = merge(Workshop::model_word(), {"overwrite_export_dir=true"});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("holds no model"));
  EXPECT_TRUE(fs::exists(shop_ / "merged/notes.txt"));
}

TEST_F(MergeTest, FoldersAboveAreMade) {
  for (const char* command : {"merge", "export"}) {
    Words words{command, Workshop::model_word(), "export_dir=" + (shop_ / command / "deep/model").string()};
    if (words[0] == "merge")
      words.push_back("adapter_name_or_path=" + Workshop::case_file("G01_adapter").string());
    const Outcome outcome = run_duoka(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    EXPECT_TRUE(fs::exists(shop_ / command / "deep/model/model.safetensors"));
  }
  write_file(shop_ / "file", "");
  const Outcome below_a_file =
      run_duoka({"export", Workshop::model_word(), "export_dir=" + (shop_ / "file/deep/model").string()});
  EXPECT_EQ(below_a_file.exit_code, 7) << below_a_file.all();
  EXPECT_THAT(below_a_file.err,
              HasSubstr("export_dir: cannot make the folder " + (shop_ / "file/deep").string()));
}

TEST_F(MergeTest, BaseIsNeverReplaced) {
  fs::copy(Workshop::case_file("models/tiny-llama"), shop_ / "merged");
  const Outcome outcome =
      merge("model_name_or_path=" + (shop_ / "merged").string(), {"overwrite_export_dir=true"});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr("is the base model itself"));
}

TEST_F(MergeTest, FailedMergeLeavesNoFolder) {
  const std::string no_adapter = Workshop::case_file("models/tiny-llama").string();
  const Outcome outcome = merge(Workshop::model_word(), {"adapter_name_or_path=" + no_adapter});
  EXPECT_EQ(outcome.exit_code, 4) << outcome.all();
  EXPECT_THAT(outcome.err, HasSubstr(no_adapter + ": no adapter_config.json there"));
  EXPECT_THAT(names_in(shop_.path()), IsEmpty());
}

TEST_F(MergeTest, ExportedFolderIsTheSameModel) {
  const Outcome outcome = run_duoka(
      {"export", Workshop::model_word("tiny-llama-tied"), "export_dir=" + (shop_ / "copy").string()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  const fs::path row = shop_.check_row();
  EXPECT_EQ(eval_loss(run_duoka(shop_.eval(shop_ / "copy", row))),
            eval_loss(run_duoka(shop_.eval(Workshop::case_file("models/tiny-llama-tied"), row))));
}

TEST(Eval, SeveralCardsGiveTheLossOfOne) {
  const Workshop shop;
  const fs::path model = Workshop::case_file("models/tiny-llama"), rows = Workshop::case_file("rows7.jsonl");
  const Outcome one = run_duoka(shop.eval(model, rows, {"per_device_eval_batch_size=2"}));
  const Outcome two = run_duoka(shop.eval(model, rows, {"per_device_eval_batch_size=1", "--cards", "2"}));
  EXPECT_NEAR(eval_loss(two), eval_loss(one), 1e-5 * eval_loss(one));
  EXPECT_EQ(json::parse(one.out)["rows"], 7);
  EXPECT_EQ(json::parse(two.out)["trained_tokens"], json::parse(one.out)["trained_tokens"]);
}

/// A loss that is no number is no result: scripts read the line as JSON.
TEST(Eval, DamagedWeightsAreAnError) {
  const Workshop shop;
  fs::copy(Workshop::case_file("models/tiny-llama"), shop / "damaged");
  const fs::path weights = shop / "damaged" / "model.safetensors";
  std::string bytes = read_text_file(weights);
  write_file(weights, bytes.replace(bytes.size() - 4, 4, std::string("\0\0\xC0\x7F", 4)));  // NaN
  const Outcome outcome = run_duoka(shop.eval(shop / "damaged", Workshop::case_file("rows7.jsonl")));
  EXPECT_EQ(outcome.exit_code, 6) << outcome.all();
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("error: StateError: the loss is not finite"));
}

/// At a terminal a message that does not fit ends neither the chat nor what was said before.
TEST(Chat, AMessageTooLongIsSaidAndLeftOut) {
  const std::string command = duoka_binary() + " chat " + Workshop::model_word() + " max_new_tokens=3";
  const std::string input = std::string(600, 'a') + "\nthe cat\n/exit\n";
  const Outcome outcome = run_duoka({"-qec", command, "/dev/null"}, {.input = input, .program = "script"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.out, HasSubstr("tokens; this model takes 256; say less, or /clear"));
  const Outcome piped = run_duoka({"chat", Workshop::model_word(), "max_new_tokens=3"}, {.input = input});
  EXPECT_EQ(piped.exit_code, 2) << piped.all();
}

/// A slip of the keys is not for the model.
TEST(Chat, AnUnknownCommandListsThose) {
  const Outcome outcome =
      run_duoka({"chat", Workshop::model_word(), "max_new_tokens=3"}, {.input = "/celar\nthe cat\n/exit\n"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_THAT(outcome.err,
              HasSubstr("there is no command '/celar': /clear forgets the conversation, /exit or "
                        "Ctrl-D ends; a space before it makes it a message\n"));
  const Outcome plain =
      run_duoka({"chat", Workshop::model_word(), "max_new_tokens=3"}, {.input = "the cat\n"});
  EXPECT_EQ(outcome.out, plain.out);
}

TEST(Doctor, SaysWhatThereIsAndThatTrainingCanRun) {
  const Outcome outcome = run_duoka({"doctor", "backend=gloo"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
  for (const char* section : {"\ncards\n", "\nlibraries\n", "\nmachine\n", "\nall-reduce, ", "\nresult\n"})
    EXPECT_THAT(outcome.out, HasSubstr(section));
  EXPECT_THAT(outcome.out, HasSubstr("training can run here"));
  EXPECT_EQ(run_duoka({"doctor", "backend=gloo", "output_dir=/proc/nowhere"}).exit_code, 1);
  const Outcome unknown = run_duoka({"doctor", "backend=mpi"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("found 'mpi'; wanted one of auto, gloo, nccl"));
}

const std::vector<Words> all_commands{{"train"}, {"eval"},   {"generate"},        {"chat"},
                                      {"merge"}, {"export"}, {"data", "inspect"}, {"doctor"}};

Outcome about(Words command, const std::string& flag) {
  command.push_back(flag);
  return run_duoka(command);
}

TEST(About, OverviewNamesEachCommand) {
  for (const Words& words : std::vector<Words>{{}, {"--help"}, {"-h"}, {"help"}}) {
    const Outcome outcome = run_duoka(words);
    EXPECT_EQ(outcome.exit_code, 0);
    for (const char* name :
         {"train", "eval", "generate", "chat", "merge", "export", "data inspect", "doctor"})
      EXPECT_THAT(outcome.out, HasSubstr(std::string("\n  ") + name + " "));
  }
}

TEST(About, HelpOfEachCommandNamesItsKeys) {
  for (const Words& command : all_commands) {
    const Outcome outcome = about(command, "--help");
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.err, IsEmpty());
    EXPECT_TRUE(outcome.out.starts_with("duoka " + command[0])) << outcome.out;
    const json schema = json::parse(about(command, "--json-schema").out);
    EXPECT_FALSE(schema["properties"].empty());
    for (const auto& item : schema["properties"].items())
      EXPECT_THAT(outcome.out, HasSubstr("\n  " + item.key() + "  <"));
  }
}

/// Characters of a line as a terminal gives it, without the CR at its end.
size_t width_of(const std::string& line) {
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return c != '\r' && (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

TEST(About, WordsFitTheTerminal) {
  std::vector<Words> calls{{"--help"}, {"data", "--help"}, {"doctor", "backend=gloo"}};
  for (Words command : all_commands) {
    command.push_back("--help");
    calls.push_back(command);
  }
  for (const int columns : {60, 80})
    for (const Words& words : calls)
      for (const std::string& line : lines_of(run_duoka(words, {.terminal_columns = columns}).out))
        if (line.find(' ', line.find_first_not_of(' ')) != line.npos) {  // a path alone may be longer
          EXPECT_LE(width_of(line), static_cast<size_t>(columns)) << words[0] << ": " << line;
        }
}

TEST(About, TheFirstWordOfTwo) {
  const Outcome help = run_duoka({"data", "--help"});
  EXPECT_EQ(help.exit_code, 0) << help.all();
  EXPECT_THAT(help.out, AllOf(HasSubstr("\n  data inspect  Show data"), Not(HasSubstr("\n  train "))));
  for (const auto& [words, says] : std::initializer_list<std::pair<Words, const char*>>{
           {{"data"}, "unknown command 'data'; there is: data inspect"},
           {{"data", "inspekt"}, "unknown command 'data inspekt'; there is: data inspect"}}) {
    const Outcome outcome = run_duoka(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
    EXPECT_THAT(outcome.err, HasSubstr(says));
  }
}

TEST(About, SchemaNamesEveryOptionWithTypeAndMeaning) {
  const json schema = json::parse(about({"train"}, "--json-schema").out);
  EXPECT_EQ(schema["additionalProperties"], false);
  const auto& options = cli::train_options().options();
  EXPECT_EQ(schema["properties"].size(), options.size());
  for (const auto& option : options) {
    ASSERT_TRUE(schema["properties"].contains(option.name)) << option.name;
    const json& property = schema["properties"][option.name];
    EXPECT_TRUE(property.contains("type")) << option.name;
    EXPECT_EQ(property["description"], option.help);
    EXPECT_EQ(option.is_required,
              schema["required"].dump().find('"' + option.name + '"') != std::string::npos);
  }
}

/// The page is written by the command: `duoka train --markdown > docs/options.md`.
TEST(About, OptionsPageIsThatOfTheCommand) {
  const Outcome outcome = about({"train"}, "--markdown");
  EXPECT_EQ(read_text_file(fixture("../../docs/options.md")), outcome.out)
      << "write it anew: duoka train --markdown > docs/options.md";
}

/// Where the loader finds libtorch for `program`.
fs::path libtorch_of(const fs::path& program) {
  const std::string name = "libtorch_cpu.so => ";
  for (const std::string& line : lines_of(
           run_duoka({}, {.environment = {"LD_TRACE_LOADED_OBJECTS=1"}, .program = program.string()}).out))
    if (const size_t at = line.find(name); at != line.npos)
      return fs::path(line.substr(at + name.size(), line.rfind(" (") - at - name.size())).lexically_normal();
  return {};
}

/// A folder with .deps and build runs wherever it lies.
TEST(About, AMovedTreeHasItsOwnLibtorch) {
  const fs::path binary = fs::canonical(duoka_binary()), bin = binary.parent_path();
  const fs::path libtorch = libtorch_of(binary).parent_path();
  const fs::path inside = libtorch.lexically_relative(bin.parent_path().parent_path().parent_path());
  if (libtorch.empty() || inside.string().starts_with("..")) GTEST_SKIP() << "libtorch lies elsewhere";
  const Workshop moved;
  fs::create_directories(moved / "build/release/bin");
  fs::copy(binary, moved / "build/release/bin/duoka");
  fs::create_directories((moved / inside).parent_path());
  fs::create_directory_symlink(libtorch, moved / inside);
  EXPECT_EQ(libtorch_of(moved / "build/release/bin/duoka").parent_path(), moved / inside);
}

TEST(About, Version) {
  EXPECT_THAT(run_duoka({"--version"}).out, ::testing::MatchesRegex("duoka [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(About, UnknownWordsAreRefused) {
  for (const auto& [words, says] : std::initializer_list<std::pair<Words, const char*>>{
           {{"trian"}, "unknown command 'trian'; did you mean 'train'?"},
           {{"frobnicate"}, "unknown command 'frobnicate'; there are: train, eval"},
           {{"data"}, "data inspect"},
           {{"data", "check"}, "data inspect"},
           {{"train", "--lr=3"}, "unknown flag '--lr=3'; flags are --cards N, --pin and --help"},
           {{"train", "-v"}, "unknown flag '-v'"},
           {{"generate", "--cards", "2"}, "duoka generate runs in one process; leave --cards"},
           {{"doctor", "--pin"}, "duoka doctor runs in one process"}}) {
    const Outcome outcome = run_duoka(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.all();
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("error: ConfigError: "), HasSubstr(says)));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

}  // namespace
}  // namespace duoka::testing
