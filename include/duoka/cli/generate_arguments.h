// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "duoka/core/options.h"
#include "duoka/model/generate.h"

namespace duoka::cli {

/// Options of `duoka generate` and `duoka chat`.
struct GenerateArguments {
  std::string model_name_or_path;
  std::string adapter_name_or_path;
  std::string template_ = "auto";
  std::string prompt;
  std::string system;
  bool raw = false;
  int64_t max_new_tokens = 512;
  bool do_sample = false;
  double temperature = 0.95;
  int64_t top_k = 50;
  double top_p = 0.7;
  double repetition_penalty = 1;
  int64_t seed = 42;
  bool bf16 = false;
};

const OptionTable<GenerateArguments>& generate_options();
/// The same without `prompt` and `raw`, and sampling unless told otherwise.
const OptionTable<GenerateArguments>& chat_options();

/// How the next token is chosen.
model::Sampling sampling_of(const GenerateArguments& arguments);

}  // namespace duoka::cli
