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

std::vector<Flag> rank_flags() {
  return {
      {"cards", "N",
       "Starts N ranks on this machine, a GPU for each or, where there is none, a share of the cores. Left "
       "out, and without torchrun, srun or mpirun: one."},
      {"pin", "",
       "With --cards: gives each rank a share of the cores for its own, which its threads do not leave."}};
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

/// The flags as a page of the documentation has them.
std::string flags_markdown(const std::vector<Flag>& flags) {
  if (flags.empty()) return "";
  std::string out = "\n## Flags\n\n| flag | meaning |\n| --- | --- |\n";
  for (const Flag& flag : flags) out += text("| `", flag.usage(), "` | ", flag.help, " |\n");
  return out;
}

/// The same for a terminal, as options are printed there.
std::string flags_help(const std::vector<Flag>& flags, size_t columns) {
  if (flags.empty()) return "";
  constexpr size_t indent = 6;
  std::string out = "\nFlags\n";
  for (const Flag& flag : flags)
    out +=
        text("  ", flag.usage(), "\n", std::string(indent, ' '), wrapped(flag.help, indent, columns), "\n");
  return out;
}

int print_about(const Command& command, const std::string& flag) {
  if (flag == "--json-schema" && command.json_schema != nullptr)
    std::cout << command.json_schema();
  else if (flag == "--markdown" && command.markdown != nullptr)
    std::cout << "# duoka " << command.name << "\n\n"
              << command.summary << " Called as `duoka " << command.name << " " << command.usage
              << "`.\nThis page is what `duoka " << command.name << " --markdown` prints.\n"
              << flags_markdown(command.flags) << command.markdown();
  else {
    const int width = terminal_columns(help_columns);
    const auto columns = static_cast<size_t>(width);
    for (const std::string& line : {text("duoka ", command.name, " ", command.usage), text(command.summary)})
      std::cout << wrapped(line, 0, columns) << "\n";
    std::cout << flags_help(command.flags, columns);
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

/// The flag of `command` that `word` names, "--cards" or "--cards=2".
const Flag& find_flag(const Command& command, const std::string& word) {
  const std::string name = word.starts_with("--") ? word.substr(2, word.find('=') - 2) : "";
  const auto found = std::ranges::find(command.flags, name, &Flag::name);
  if (found != command.flags.end()) return *found;
  if (command.flags.empty() && (name == "cards" || name == "pin"))
    throw ConfigError(text("duoka ", command.name, " runs in one process; leave --cards and --pin out"));
  std::vector<std::string> known;
  for (const Flag& flag : command.flags) known.push_back(flag.usage());
  throw ConfigError(text("unknown flag '", word, "'; flags are ", join(known), known.empty() ? "" : " and ",
                         "--help, options are key=value"));
}

/// The flag at arguments[i], "--pin", "--cards 2" or "--cards=2"; `i` ends at its last word.
void read_flag(const Command& command, const std::vector<std::string>& arguments, size_t& i,
               CommandLine& line) {
  const std::string& word = arguments[i];
  const Flag& flag = find_flag(command, word);
  const size_t equals = word.find('=');
  std::string value;
  if (equals != std::string::npos)
    value = word.substr(equals + 1);
  else if (!flag.value.empty() && i + 1 < arguments.size())
    value = arguments[++i];
  if (flag.value.empty() && equals != std::string::npos)
    throw ConfigError(text("--", flag.name, ": found '", value, "'; it takes no value"));
  if (flag.name == "cards")
    line.num_cards = parse_cards(value);
  else if (flag.name == "pin")
    line.pins_cores = true;
  else
    line.flags[flag.name] = value;
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
  for (size_t i = num_words; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (is_help(word) || word == "--json-schema" || word == "--markdown") return print_about(*command, word);
    if (word.starts_with("-"))
      read_flag(*command, arguments, i, line);
    else
      line.words.push_back(word);
  }
  if (line.num_cards > 1)
    comm::stay_single_threaded();  // until the ranks are made, as copies of this process
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
