// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "cli/model_files.h"
#include "cli/speaker.h"
#include "duoka/cli/command.h"
#include "duoka/cli/generate_arguments.h"
#include "duoka/cli/read_options.h"

namespace duoka::cli {

namespace {

int run(const CommandLine& line) {
  const GenerateArguments arguments = read_options(OptionWords::parse(line.words), generate_options());
  check_model_path(arguments.model_name_or_path, "model_name_or_path");
  Speaker speaker(arguments, Log());
  std::vector<int64_t> prompt;
  if (arguments.raw) {
    prompt = speaker.text_ids(arguments.prompt);
  } else {
    data::Conversation conversation;
    if (!arguments.system.empty()) conversation.messages.push_back({"system", arguments.system});
    conversation.messages.push_back({"user", arguments.prompt});
    prompt = speaker.prompt_ids(conversation);
  }
  speaker.reply(prompt, [](const std::string& piece) {
    std::cout << piece << std::flush;
    return std::cout.good();
  });
  std::cout << std::endl;
  return 0;
}

}  // namespace

const Command generate_command{
    "generate",
    "Answer one prompt.",
    "[CONFIG.yaml] model_name_or_path=… prompt=… [key=value …]",
    run,
    [](int columns) { return generate_options().help(columns); },
    [] { return generate_options().json_schema("duoka generate"); },
    [] { return generate_options().markdown(); },
};

}  // namespace duoka::cli
