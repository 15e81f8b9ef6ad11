// SPDX-License-Identifier: Apache-2.0
// Parts of duoka against what this machine does at best. bench/micro runs both:
//
//   bench_micro                  # layers, data and files; one process
//   bench_micro --cards 2        # collectives
//
// Options are Google Benchmark's (--benchmark_filter=norm, --benchmark_repetitions=5, …).
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "duoka/comm/session.h"
#include "duoka/core/error.h"
#include "duoka/core/host_allocator.h"
#include "duoka/core/text.h"
#include "measured.h"

namespace {

using duoka::comm::Session;

/// Of the ranks that do not print.
class Silent final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

/// The first rank alone writes files.
std::vector<std::string> arguments_of(int argc, char** argv, bool is_first) {
  std::vector<std::string> arguments;
  for (int i = 0; i < argc; ++i)
    if (is_first || !std::string_view(argv[i]).starts_with("--benchmark_out"))
      arguments.emplace_back(argv[i]);
  return arguments;
}

void run(const Session& session, std::vector<std::string> arguments) {
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  int num_words = static_cast<int>(words.size());
  benchmark::Initialize(&num_words, words.data());
  if (benchmark::ReportUnrecognizedArguments(num_words, words.data()))
    throw duoka::ConfigError("these are not options of Google Benchmark; see --help");
  if (session.group().size() > 1) {
    duoka::bench::add_collectives(session.group());
  } else {
    duoka::bench::add_layers();
    duoka::bench::add_elementwise_layers();
    duoka::bench::add_data();
    duoka::bench::add_files();
  }
  Silent silent;
  benchmark::RunSpecifiedBenchmarks(session.is_first() ? nullptr : &silent);
  if (const int failed = duoka::bench::num_failed(); failed > 0)
    throw duoka::StateError(duoka::counted(failed, "benchmark") + " could not run; the table says why");
}

}  // namespace

int main(int argc, char** argv) {
  duoka::host_allocator::install();
  return duoka::comm::run_main(argc, argv, [&](const Session& session) {
    run(session, arguments_of(argc, argv, session.is_first()));
  });
}
