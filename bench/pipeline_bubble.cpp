// SPDX-License-Identifier: Apache-2.0
// Prints how long the ranks of a pipeline of equal stages are idle, as measured from the trace of a run,
// beside the formula of each schedule. Stages sleep, so that two cores do for many ranks:
//
//   build/release/bin/bench_pipeline_bubble --cards 4
#include <filesystem>
#include <iomanip>
#include <iostream>

#include <unistd.h>

#include "duoka/comm/collectives.h"
#include "duoka/comm/session.h"
#include "parallel/sleeping_pipeline.h"

namespace {

using duoka::parallel::PipelineSchedule;

void measure(const duoka::comm::Session& session) {
  const auto& group = session.group();
  std::string name =
      (std::filesystem::temp_directory_path() / ("bubble-" + std::to_string(::getpid()))).string();
  duoka::comm::broadcast_text(name, 0, group);
  const duoka::test::SleepTimes times;
  if (session.is_first())
    std::cout << "| schedule | ranks | chunks | micro-batches | idle, measured | by the formula |\n"
              << "| --- | --- | --- | --- | --- | --- |\n";
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward,
                              PipelineSchedule::interleaved, PipelineSchedule::zero_bubble})
    for (const int num_micro : {4, 8, 16}) {
      const int num_chunks = schedule == PipelineSchedule::interleaved ? 2 : 1;
      duoka::test::run_sleeping_pipeline(schedule, num_chunks, num_micro, times, group, name);
      if (!session.is_first()) continue;
      std::cout << std::fixed << std::setprecision(3) << "| " << schedule_name(schedule) << " | "
                << group.size() << " | " << num_chunks << " | " << num_micro << " | "
                << duoka::test::idle_share(std::filesystem::path(name) / "trace.json", group.size()) << " | "
                << duoka::test::idle_share_by_formula(schedule, num_chunks, num_micro, group.size(), times)
                << " |" << std::endl;
    }
  if (session.is_first()) std::filesystem::remove_all(name);
}

}  // namespace

int main(int argc, char** argv) { return duoka::comm::run_main(argc, argv, measure); }
