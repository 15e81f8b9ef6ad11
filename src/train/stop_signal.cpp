// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/stop_signal.h"

#include <array>

#include <signal.h>

namespace duoka::train {

namespace {

constexpr std::array stop_signals{SIGINT, SIGTERM, SIGHUP};
// A handler can reach nothing but a global.
volatile sig_atomic_t received_signal = 0;
struct sigaction earlier[stop_signals.size()];

extern "C" void remember_signal(int number) {
  received_signal = number;
  signal(number, SIG_DFL);  // the next one is not waited for
}

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < stop_signals.size(); ++i) {
    sigaction(stop_signals[i], nullptr, &earlier[i]);
    // What nohup, or a shell for what it runs in the background, had ignored stays so.
    if (earlier[i].sa_handler != SIG_IGN) sigaction(stop_signals[i], &action, nullptr);
  }
}

StopSignal::~StopSignal() {
  for (size_t i = 0; i < stop_signals.size(); ++i) sigaction(stop_signals[i], &earlier[i], nullptr);
}

int StopSignal::received() const { return received_signal; }

}  // namespace duoka::train
