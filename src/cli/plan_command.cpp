// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>
#include <iostream>

#include <nlohmann/json.hpp>

#include "cli/model_files.h"
#include "cli/plan_table.h"
#include "cli/training_setup.h"
#include "duoka/cli/command.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::cli {

namespace {

/// Of a folder config.json is enough: nothing is read of the weights.
model::ModelConfig read_shape(const std::string& path) {
  check_model_path(path, "model_name_or_path");
  if (model::is_gguf(path)) return model::read_config(path);
  const auto file = std::filesystem::path(path) / "config.json";
  return model::read_config(io::read_json_file(file), file.string());
}

double positive_number(const std::string& flag, const std::string& found) {
  double value = 0;
  const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
  if (error == std::errc() && end == found.data() + found.size() && value > 0 && value < 1e12) return value;
  throw ConfigError(text("--", flag, ": found '", found, "'; wanted a number above 0"));
}

void read_speeds(const std::string& found, Cluster& cluster) {
  const size_t comma = found.find(',');
  if (comma == std::string::npos)
    throw ConfigError(text("--link-gb-s: found '", found,
                           "'; wanted two numbers, 10^9 bytes a second that a card sends inside a host and "
                           "between hosts, such as 450,50"));
  cluster.inside_gb_s = positive_number("link-gb-s", found.substr(0, comma));
  cluster.between_gb_s = positive_number("link-gb-s", found.substr(comma + 1));
}

Cluster cluster_of(const CommandLine& line) {
  Cluster cluster;
  cluster.num_cards = std::max(1, line.num_cards);
  if (const auto hosts = line.flags.find("hosts"); hosts != line.flags.end()) {
    const int64_t count = within("reading --hosts", [&] { return option_parse::integer(hosts->second); });
    if (count < 1 || count > cluster.num_cards || cluster.num_cards % count != 0)
      throw ConfigError(text("--hosts: found ", count, "; wanted a number that divides the ",
                             counted(cluster.num_cards, "card")));
    cluster.num_hosts = static_cast<int>(count);
  }
  if (const auto speeds = line.flags.find("link-gb-s"); speeds != line.flags.end())
    read_speeds(speeds->second, cluster);
  return cluster;
}

/// Of --memory-gib; 0: not given.
int64_t memory_limit(const CommandLine& line) {
  const auto found = line.flags.find("memory-gib");
  if (found == line.flags.end()) return 0;
  return static_cast<int64_t>(positive_number("memory-gib", found->second) *
                              static_cast<double>(int64_t{1} << 30));
}

TrainArguments read_arguments(const CommandLine& line) {
  std::vector<std::string> words = line.words;
  if (const auto model = line.flags.find("model"); model != line.flags.end())
    words.push_back("model_name_or_path=" + model->second);
  TrainArguments arguments = read_options(OptionWords::parse(words), plan_options());
  if (arguments.model_name_or_path.empty())
    throw ConfigError("not given: model_name_or_path, or --model FOLDER");
  check_train_arguments(arguments);
  return arguments;
}

parallel::Workload workload_of(const TrainArguments& arguments) {
  parallel::Workload workload;
  workload.model = read_shape(arguments.model_name_or_path);
  workload.dtype = arguments.bf16 ? at::kBFloat16 : at::kFloat;
  workload.device = at::kCUDA;
  workload.tune = [plan = plan_tuning(arguments, workload.model)](model::Decoder& decoder) {
    apply_tuning(decoder, plan, 0);
  };
  workload.engine = engine_options(arguments);
  constexpr int64_t master_bytes = 4;
  workload.optimizer_bytes = make_optimizer(arguments)->state_bytes_per_element(master_bytes);
  workload.rows = arguments.per_device_train_batch_size;
  workload.row_tokens = arguments.cutoff_len;
  workload.accumulation = arguments.gradient_accumulation_steps;
  return workload;
}

void print_model(const parallel::Workload& workload, const parallel::Estimate& estimate) {
  std::cout << workload.model.family << ", " << count_text(estimate.num_parameters) << " parameters, "
            << count_text(estimate.num_trained) << " trained, computing in "
            << (workload.dtype == at::kFloat ? "f32" : "bf16")
            << (workload.engine.recompute ? ", layers run again" : "")
            << (workload.engine.offload_optimizer ? ", optimizer offloaded" : "")
            << (workload.engine.offload_activations ? ", activations offloaded" : "") << "\n";
}

void print_update(const parallel::Workload& workload, int data_ranks) {
  std::cout << "an update: " << counted(workload.rows * workload.accumulation * data_ranks, "row") << " of "
            << counted(workload.row_tokens, "token") << " (" << workload.rows << " per card x "
            << workload.accumulation << " accumulated x " << data_ranks << ")\n\n";
}

/// What a user can change where no layout fits.
std::string advice(const parallel::Workload& workload, const Candidate& smallest) {
  const auto bytes = static_cast<double>(fullest(smallest.estimate).memory.total());
  constexpr double tenth = static_cast<double>(int64_t{1} << 30) / 10;
  std::vector<std::string> ways{text("--memory-gib ", std::ceil(bytes / tenth) / 10), "more cards"};
  if (!workload.engine.offload_optimizer) ways.emplace_back("offload_optimizer=true");
  if (!workload.engine.offload_activations) ways.emplace_back("offload_activations=true");
  ways.emplace_back("a smaller cutoff_len or per_device_train_batch_size");
  return join(ways);
}

/// Lists layouts; the exit code says whether there is one that fits.
int list_layouts(const parallel::Workload& workload, const parallel::Plan& plan, const Cluster& cluster,
                 int64_t memory_bytes) {
  constexpr size_t most_shown = 12;
  constexpr int none_fits = 1;
  const std::vector<Candidate> found = search_layouts(workload, plan, cluster, memory_bytes);
  if (found.empty()) {
    std::cout
        << "no layout has whole micro-batches for these rows; what would: gradient_accumulation_steps a "
           "multiple of "
        << cluster.num_cards / resolve(plan, cluster.num_cards).data << "\n";
    return none_fits;
  }
  print_candidates(std::cout, found, cluster, memory_bytes, most_shown);
  if (fits(found.front(), memory_bytes)) return 0;
  std::cout << "\n" << wrapped("what would help: " + advice(workload, found.front()), 0, 80) << "\n";
  return none_fits;
}

int run(const CommandLine& line) {
  const TrainArguments arguments = read_arguments(line);
  const Cluster cluster = cluster_of(line);
  const int64_t memory_bytes = memory_limit(line);
  const parallel::Workload workload = workload_of(arguments);
  const parallel::Plan plan = parallel_plan(arguments);
  const parallel::Estimate estimate = parallel::estimate(workload, plan, cluster.num_cards);
  print_model(workload, estimate);
  std::cout << counted(cluster.num_cards, "card") << " on " << counted(cluster.num_hosts, "host");
  if (memory_bytes == 0) std::cout << ": " << describe(estimate.plan);
  std::cout << "\n";
  print_update(workload, estimate.plan.data);
  if (memory_bytes > 0) return list_layouts(workload, plan, cluster, memory_bytes);
  print_estimate(std::cout, estimate, cluster);
  return 0;
}

}  // namespace

const Command plan_command{
    "plan",
    "Memory and traffic of a training on many cards, by formula: no cards, no weights.",
    "[CONFIG.yaml] [key=value …] [--model FOLDER] [--cards N] [--hosts M] [--link-gb-s INSIDE,BETWEEN] "
    "[--memory-gib X]   (the keys of a training)",
    run,
    [](int columns) { return plan_options().help(columns); },
    [] { return plan_options().json_schema("duoka plan"); },
    [] { return plan_options().markdown(); },
    {{"model", "FOLDER",
      "The same as model_name_or_path=FOLDER; its config.json is enough, or a .gguf file."},
     {"cards", "N", "Cards of the training, on all hosts together; left out: 1."},
     {"hosts", "M", "Hosts that the cards stand in, as many in each; left out: 1."},
     {"link-gb-s", "INSIDE,BETWEEN",
      "10^9 bytes a second that a card sends inside its host, and to other hosts, such as 450,50: adds how "
      "many seconds the sending takes."},
     {"memory-gib", "X",
      "GiB of one card: lists the layouts in which no card needs more, best first, instead of showing the "
      "one that the keys ask for. Ends with exit code 1 when there is none."}},
};

}  // namespace duoka::cli
