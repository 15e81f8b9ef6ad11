// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include <unistd.h>

#include "cli/model_files.h"
#include "cli/speaker.h"
#include "duoka/cli/command.h"
#include "duoka/cli/generate_arguments.h"
#include "duoka/cli/read_options.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/train/stop_signal.h"

namespace duoka::cli {

namespace {

data::Conversation opening(const GenerateArguments& arguments) {
  data::Conversation conversation;
  if (!arguments.system.empty()) conversation.messages.push_back({"system", arguments.system});
  return conversation;
}

constexpr const char* commands_text = "/clear forgets the conversation, /exit or Ctrl-D ends";

/// Answers into stdout; Ctrl-C ends this reply and not the chat.
std::string answer(Speaker& speaker, const data::Conversation& conversation) {
  const train::StopSignal stop;
  std::string reply = speaker.reply(speaker.prompt_ids(conversation), [&](const std::string& piece) {
    std::cout << piece << std::flush;
    return std::cout.good() && stop.received() == 0;
  });
  std::cout << std::endl;
  return reply;
}

int run(const CommandLine& line) {
  const GenerateArguments arguments = read_options(OptionWords::parse(line.words), chat_options());
  check_model_path(arguments.model_name_or_path, "model_name_or_path");
  Speaker speaker(arguments, Log());
  const bool asks = isatty(STDIN_FILENO) == 1;
  if (asks) std::cout << "Type a message. " << commands_text << ".\n";
  data::Conversation conversation = opening(arguments);
  std::string message;
  while (true) {
    if (asks) std::cout << "\n> " << std::flush;
    if (!std::getline(std::cin, message) || message == "/exit") break;
    if (message.empty()) continue;
    if (message == "/clear") {
      conversation = opening(arguments);
      continue;
    }
    if (message.starts_with('/')) {
      // Not into the answers that a script reads.
      (asks ? std::cout : std::cerr) << "there is no command '" << printable(message)
                                     << "': " << commands_text << "; a space before it makes it a message\n";
      continue;
    }
    conversation.messages.push_back({"user", message});
    try {
      conversation.messages.push_back({"assistant", answer(speaker, conversation)});
    } catch (const ConfigError& too_long) {
      // Who sits there would lose the talk; a script has to know.
      if (!asks) throw;
      conversation.messages.pop_back();
      std::cout << too_long.what() << "; say less, or /clear to forget the conversation\n";
    }
  }
  if (asks) std::cout << std::endl;
  return 0;
}

}  // namespace

const Command chat_command{
    "chat",
    "Talk with a model; one message a line.",
    "[CONFIG.yaml] model_name_or_path=… [key=value …]",
    run,
    [](int columns) { return chat_options().help(columns); },
    [] { return chat_options().json_schema("duoka chat"); },
    [] { return chat_options().markdown(); },
};

}  // namespace duoka::cli
