// SPDX-License-Identifier: Apache-2.0
#include "duoka/cli/command.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/version.h"
#include "duoka/comm/launcher.h"
#include "duoka/core/error.h"
#include "duoka/core/options.h"
#include "duoka/core/text.h"

namespace duoka::cli {

std::span<const Command* const> commands() {
  static constexpr std::array<const Command*, 9> all{&train_command,        &eval_command,  &generate_command,
                                                     &chat_command,         &merge_command, &export_command,
                                                     &data_inspect_command, &plan_command,  &doctor_command};
  return all;
}

namespace {

constexpr const char* about =
    "duoka fine-tunes large language models on many cards.\n\n"
    "usage: duoka COMMAND [CONFIG.yaml] [key=value …]\n\n";

constexpr int help_columns = 100;  // where there is no terminal

/// Commands whose names begin with `start`, a line each.
std::string overview(std::string_view start) {
  constexpr size_t indent = 16;
  const auto width = static_cast<size_t>(terminal_columns(help_columns));
  std::string out = about;
  for (const Command* command : commands()) {
    const std::string_view name = command->name;
    if (name.starts_with(start))
      out += text("  ", name, std::string(indent - 2 - name.size(), ' '),
                  wrapped(command->summary, indent, width), "\n");
  }
  return out + "\n" +
         wrapped("duoka COMMAND --help lists the keys of a command. duoka --version.", 0, width) + "\n";
}

bool is_help(const std::string& word) { return word == "--help" || word == "-h"; }

/// The commands of two words whose first one is `word`.
std::vector<std::string> commands_under(const std::string& word) {
  std::vector<std::string> names;
  for (const Command* command : commands())
    if (const std::string name = command->name; name.starts_with(word + " ")) names.push_back(name);
  return names;
}

/// The command that the first one or two words name, and how many words that took.
std::pair<const Command*, size_t> find_command(const std::vector<std::string>& arguments) {
  for (const Command* command : commands()) {
    const std::string name = command->name;
    if (arguments[0] == name) return {command, 1};
    if (arguments.size() > 1 && arguments[0] + " " + arguments[1] == name) return {command, 2};
  }
  if (const auto under = commands_under(arguments[0]); !under.empty())
    throw ConfigError(text("unknown command '", arguments[0], arguments.size() > 1 ? " " + arguments[1] : "",
                           "'; there is: ", join(under)));
  std::vector<std::string> names;
  for (const Command* command : commands()) names.emplace_back(command->name);
  const std::string near = nearest(arguments[0], names);
  throw ConfigError(text("unknown command '", arguments[0], "'; ",
                         near.empty() ? "there are: " + join(names) : "did you mean '" + near + "'?"));
}

int print_about(const Command& command, const std::string& flag) {
  if (flag == "--json-schema" && command.json_schema != nullptr)
    std::cout << command.json_schema();
  else if (flag == "--markdown" && command.markdown != nullptr)
    std::cout << "# duoka " << command.name << "\n\n"
              << command.summary << " Called as `duoka " << command.name << " " << command.usage
              << "`.\nThis page is what `duoka " << command.name << " --markdown` prints.\n"
              << command.markdown();
  else {
    const int width = terminal_columns(help_columns);
    for (const std::string& line : {text("duoka ", command.name, " ", command.usage), text(command.summary)})
      std::cout << wrapped(line, 0, static_cast<size_t>(width)) << "\n";
    if (command.help != nullptr) std::cout << "\n" << command.help(width);
  }
  return 0;
}

int parse_cards(const std::string& word) {
  const int64_t cards = within("reading --cards", [&] { return option_parse::integer(word); });
  if (cards < 1 || cards > 4096)
    throw ConfigError(text("--cards: found ", word, "; wanted a number from 1 to 4096"));
  return static_cast<int>(cards);
}

/// The flag with a value at arguments[i], "--cards 2" or "--cards=2"; `i` ends at its last word.
void read_flag(const Command& command, const std::vector<std::string>& arguments, size_t& i,
               CommandLine& line) {
  const std::string& word = arguments[i];
  const size_t equals = word.find('=');
  const std::string name = word.starts_with("--") ? word.substr(2, equals - 2) : "";
  const bool is_own = std::ranges::find(command.flags, name) != command.flags.end();
  if (name != "cards" && !is_own) {
    std::string known = "--cards N, --pin and --help";
    for (const std::string& flag : command.flags) known = text("--", flag, ", ", known);
    throw ConfigError(text("unknown flag '", word, "'; flags are ", known, ", options are key=value"));
  }
  std::string value;
  if (equals != std::string::npos)
    value = word.substr(equals + 1);
  else if (i + 1 < arguments.size())
    value = arguments[++i];
  if (is_own)
    line.flags[name] = value;
  else
    line.num_cards = parse_cards(value);
}

int run_checked(const std::vector<std::string>& arguments) {
  if (arguments.empty() || is_help(arguments[0]) || arguments[0] == "help") {
    std::cout << overview("");
    return 0;
  }
  if (arguments.size() > 1 && is_help(arguments[1]) && !commands_under(arguments[0]).empty()) {
    std::cout << overview(arguments[0] + " ");
    return 0;
  }
  if (arguments[0] == "--version") {
    std::cout << "duoka " << version << "\n";
    return 0;
  }
  const auto [command, num_words] = find_command(arguments);
  CommandLine line;
  line.all = arguments;
  for (size_t i = num_words; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (is_help(word) || word == "--json-schema" || word == "--markdown") return print_about(*command, word);
    if (word == "--pin")
      line.pins_cores = true;
    else if (word.starts_with("-"))
      read_flag(*command, arguments, i, line);
    else
      line.words.push_back(word);
  }
  if (!command->takes_cards && (line.num_cards > 0 || line.pins_cores))
    throw ConfigError(text("duoka ", command->name, " runs in one process; leave --cards and --pin out"));
  return command->run(line);
}

}  // namespace

int terminal_columns(int otherwise) {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

int run_command(const std::vector<std::string>& arguments) {
  return comm::run_rank(0, 1, [&] { return run_checked(arguments); });
}

}  // namespace duoka::cli
