// SPDX-License-Identifier: Apache-2.0
#include "duoka/comm/session.h"

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/Context.h>

#include "duoka/comm/collectives.h"
#include "duoka/comm/launcher.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

constexpr std::string_view cards_option = "--cards";

int number_of_cards(const std::string& word) {
  int cards = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, cards);
  if (error != std::errc() || stop != end || cards < 1)
    throw ConfigError(text("--cards ", word, ": wanted a number of ranks, at least 1"));
  return cards;
}

/// Takes "--cards N" or "--cards=N" out of `arguments`; 0 when it is not among them.
int take_cards(std::vector<std::string>& arguments) {
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    if (!word->starts_with(cards_option)) continue;
    if (word->size() > cards_option.size() && (*word)[cards_option.size()] == '=') {
      const int cards = number_of_cards(word->substr(cards_option.size() + 1));
      arguments.erase(word);
      return cards;
    }
    if (*word != cards_option) continue;
    if (word + 1 == arguments.end()) throw ConfigError("--cards: wanted a number of ranks behind it");
    const int cards = number_of_cards(word[1]);
    arguments.erase(word, word + 2);
    return cards;
  }
  return 0;
}

Session connected(const World& world, ConnectOptions options) {
  const at::Device device = device_of(world);
  options.cuda_device = device.is_cuda() ? device.index() : -1;
  return {world, device, connect(world, options)};
}

int run_rank_of(const World& world, const std::function<void(const Session&)>& body) {
  return run_rank(world.rank, world.size, [&] {
    const Session session = connected(world, {});
    body(session);
    barrier(session.group());  // the wires close behind this: no rank may still wait for something
    return 0;
  });
}

}  // namespace

at::Device device_of(const World& world) {
  if (!at::hasCUDA()) return at::kCPU;
  // NOLINTNEXTLINE(bugprone-signed-char-misuse): a number, no character.
  const auto num_devices = static_cast<int>(at::detail::getCUDAHooks().deviceCount());
  if (num_devices == 0) return at::kCPU;
  if (world.local_rank >= num_devices)
    throw ConfigError(text("local rank ", world.local_rank, " has no card of its own: this machine has ",
                           num_devices, "; use --cards ", num_devices, " or less"));
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(world.local_rank));
}

Session init(const ConnectOptions& options) { return connected(World::from_environment(), options); }

int run_main(int argc, const char* const* argv, const std::function<void(const Session&)>& body) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  World world;
  int cards = 0;
  const int trouble = run_rank(0, 1, [&] {
    world = World::from_environment();
    cards = take_cards(arguments);
    if (cards > 0 && world.launcher != Launcher::none) refuse_cards(cards, world);
    return cards > 0 ? launch(cards, arguments) : 0;
  });
  if (trouble != 0 || cards > 0) return trouble;
  return run_rank_of(world, body);
}

}  // namespace duoka::comm
