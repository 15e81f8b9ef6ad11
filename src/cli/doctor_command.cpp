// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "duoka/cli/command.h"
#include "duoka/cli/doctor.h"
#include "duoka/cli/read_options.h"

namespace duoka::cli {

namespace {

const OptionTable<DoctorOptions>& options() {
  static const OptionTable<DoctorOptions> table = [] {
    OptionTable<DoctorOptions> t;
    t.group("Options");
    t.add("backend", &DoctorOptions::backend, "auto: NCCL where there are cards, else Gloo.")
        .one_of({"auto", "gloo", "nccl"});
    t.add("output_dir", &DoctorOptions::output_dir,
          "Where checkpoints would go: its free space is looked at.");
    return t;
  }();
  return table;
}

int run(const CommandLine& line) {
  return doctor(std::cout, read_options(OptionWords::parse(line.words), options()), terminal_columns(0));
}

}  // namespace

const Command doctor_command{
    "doctor",
    "What this machine has for training, and what is missing.",
    "[key=value …]",
    run,
    [](int columns) { return options().help(columns); },
    [] { return options().json_schema("duoka doctor"); },
    [] { return options().markdown(); },
};

}  // namespace duoka::cli
