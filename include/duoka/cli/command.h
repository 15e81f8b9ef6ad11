// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace duoka::cli {

/// What follows the command's name on the command line.
struct CommandLine {
  std::vector<std::string> words;  ///< Without the flags; see OptionWords.
  int num_cards = 0;               ///< --cards N; 0: not given.
  bool pins_cores = false;         ///< --pin
  /// The command's other flags that were given: name without dashes, value.
  std::map<std::string, std::string> flags;
};

/// A word with two dashes that a command knows beside its keys.
struct Flag {
  std::string name;   ///< "cards" for --cards.
  std::string value;  ///< "N"; "" for one without.
  std::string help;

  std::string usage() const { return "--" + name + (value.empty() ? "" : " " + value); }
};
/// Those of commands that run on many cards.
std::vector<Flag> rank_flags();

/// One command of duoka, in a file of its own.
struct Command {
  const char* name;     ///< "train", or two words: "data inspect".
  const char* summary;  ///< One line.
  const char* usage;    ///< After the name: "[CONFIG.yaml] [key=value …]".
  int (*run)(const CommandLine& line);
  /// The options' help, JSON schema and documentation page; null when the command has no options.
  std::string (*help)(int columns) = nullptr;
  std::string (*json_schema)() = nullptr;
  std::string (*markdown)() = nullptr;
  std::vector<Flag> flags = {};  ///< In the order of the help. Others are an error.
};

extern const Command train_command, eval_command, generate_command, chat_command, merge_command,
    export_command, data_inspect_command, plan_command, doctor_command;

/// All commands, in the order of the help.
std::span<const Command* const> commands();

/// Columns of the terminal that stdout is; `otherwise` where it is none.
int terminal_columns(int otherwise);

/// Runs the command `arguments` name (argv without the program), and returns the exit code. Errors become
/// one block on stderr and the exit code of their kind.
int run_command(const std::vector<std::string>& arguments);

}  // namespace duoka::cli
