// SPDX-License-Identifier: Apache-2.0
#include "duoka/cli/generate_arguments.h"

namespace duoka::cli {

namespace {

using A = GenerateArguments;
using Table = OptionTable<GenerateArguments>;

void add_model(Table& t) {
  t.group("Model");
  t.add("model_name_or_path", &A::model_name_or_path, "Hugging Face folder or .gguf file.").required();
  t.add("adapter_name_or_path", &A::adapter_name_or_path, "PEFT adapter folder.");
  t.add("template", &A::template_, "auto: the model's own chat template; else a .jinja file.");
  t.add("bf16", &A::bf16, "Compute in bfloat16.");
  t.add("system", &A::system, "System message.");
}

void add_sampling(Table& t) {
  t.group("Reply");
  t.add("max_new_tokens", &A::max_new_tokens, "Longest reply in tokens.").at_least(1);
  t.add("do_sample", &A::do_sample, "Draw tokens at random; false: always the likeliest.");
  t.add("temperature", &A::temperature, "With do_sample: below 1 sharper, above 1 flatter.").above(0);
  t.add("top_k", &A::top_k, "With do_sample: only the k likeliest tokens; 0: all.").at_least(0);
  t.add("top_p", &A::top_p, "With do_sample: the likeliest tokens that make up this share.").above(0);
  t.add("repetition_penalty", &A::repetition_penalty, "Above 1: tokens said before become less likely.")
      .above(0);
  t.add("seed", &A::seed, "Decides the draws.").at_least(0);
}

}  // namespace

const Table& generate_options() {
  static const Table table = [] {
    Table t;
    add_model(t);
    t.add("prompt", &A::prompt, "What the user says.").required();
    t.add("raw", &A::raw, "Continue the prompt as plain text, without a chat template.");
    add_sampling(t);
    return t;
  }();
  return table;
}

const Table& chat_options() {
  static const Table table = [] {
    Table t;
    add_model(t);
    add_sampling(t);
    return t;
  }();
  return table;
}

model::Sampling sampling_of(const A& arguments) {
  model::Sampling sampling;
  sampling.temperature = arguments.do_sample ? arguments.temperature : 0;
  sampling.top_k = arguments.do_sample ? arguments.top_k : 0;
  sampling.top_p = arguments.do_sample ? arguments.top_p : 1;
  sampling.repetition_penalty = arguments.repetition_penalty;
  sampling.seed = static_cast<uint64_t>(arguments.seed);
  return sampling;
}

}  // namespace duoka::cli
