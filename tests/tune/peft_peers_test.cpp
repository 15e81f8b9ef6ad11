// SPDX-License-Identifier: Apache-2.0
// Case G01, the other way: an adapter made here loads in peft with no key missing or unexpected, same logits.
#include <cstdio>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "duoka/core/text.h"
#include "duoka/tune/lora.h"
#include "duoka/tune/peft_files.h"
#include "support/golden.h"

namespace duoka::tune {
namespace {

using testing::fixture;

std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  for (int byte = std::fgetc(pipe); byte != EOF; byte = std::fgetc(pipe)) output += static_cast<char>(byte);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

struct PeerCase {
  const char* name;
  const char* model;
  SelectionOptions selection;
  LoraConfig lora;
};

class PeftPeer : public ::testing::TestWithParam<PeerCase> {};

TEST_P(PeftPeer, LoadsWhatIsWrittenHere) {
  const auto root = fixture("").parent_path().parent_path().parent_path();
  const auto python = root / ".deps/peers/bin/python";
  if (!std::filesystem::exists(python))
    GTEST_SKIP() << "no " << python << "; scripts/test --peers installs it";
  at::set_num_threads(1);
  const auto base = fixture(GetParam().model);
  auto decoder = model::Decoder::load(base);
  const auto selection = select(decoder.config(), GetParam().selection);
  apply_selection(decoder, selection, GetParam().lora, 3);
  for (Parameter* parameter : decoder.parameters())
    if (parameter->is_trainable)
      parameter->value.add_(at::arange(parameter->numel()).view(parameter->value.sizes()).cos(), 0.05);
  const testing::TemporaryFolder folder;
  write_peft_adapter(folder.path(), decoder, selection, GetParam().lora, base.string());

  const testing::Row row(std::vector<int32_t>{0, 3, 9, 20, 28, 26, 4});
  std::string command = text("'", python.string(), "' -P '", (root / "tests/peers/peft_adapter.py").string(),
                             "' '", base.string(), "' '", folder.path().string(), "'");
  for (const int32_t id : row.ids) command += text(" ", id);
  const auto answer = io::parse_json(output_of(command + " 2>/dev/null"), "peft_adapter.py");
  EXPECT_EQ(answer.at("missing"), io::Json::array());
  EXPECT_EQ(answer.at("unexpected"), io::Json::array());
  const auto wanted = at::tensor(answer.at("logits").get<std::vector<float>>());
  const auto found = decoder.logits(testing::stream_of({row}), at::tensor({int64_t{6}}))[0];
  EXPECT_LT((found - wanted).abs().max().item<double>(), 2e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, PeftPeer,
    ::testing::Values(
        PeerCase{
            "list", "cases/models/tiny-llama", {.lora_target = "q_proj,v_proj"}, {.rank = 4, .alpha = 8}},
        PeerCase{"all_rslora", "models/golden-qwen3", {}, {.rank = 3, .alpha = 5, .use_rslora = true}},
        PeerCase{"regex", "models/golden-qwen2", {.lora_target = R"(.*\.1\.mlp\..*)"}, {.rank = 2}},
        PeerCase{"one_layer", "models/golden-mistral", {.freeze_trainable_layers = 1}, {.rank = 2}},
        PeerCase{"whole_modules",
                 "cases/models/tiny-llama",
                 {.lora_target = "k_proj", .additional_target = {"embed_tokens", "lm_head", "norm"}},
                 {.rank = 2}},
        PeerCase{"whole_tied",
                 "models/golden-llama",
                 {.lora_target = "k_proj", .additional_target = {"embed_tokens"}},
                 {.rank = 2}}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace duoka::tune
