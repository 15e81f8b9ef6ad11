// SPDX-License-Identifier: Apache-2.0
// How much of a full fine-tuning's communication is hidden behind computing, beside how long it takes alone.
//
//   build/release/bin/bench_hidden MODEL_FOLDER [bf16=0] [zero=0..3] [runs=5] [rows=4] [tokens=200] [--cards
//   N]
//
// Prints a table, a line for each ZeRO stage, or for one; bench/README.md says what its columns are.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/ops/tensor.h>

#include "comm/transfer_watch.h"
#include "duoka/comm/collectives.h"
#include "duoka/comm/session.h"
#include "duoka/core/error.h"
#include "duoka/core/host_allocator.h"
#include "duoka/model/decoder.h"
#include "duoka/parallel/assemble.h"
#include "duoka/parallel/layout.h"
#include "duoka/tune/lora.h"
#include "duoka/tune/selection.h"

namespace {

using namespace duoka;
using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

/// What the thread that computes has waited for transfers while this lives.
class Waits final : public comm::TransferWatch {
 public:
  Waits() { set_current(this); }
  ~Waits() { set_current(nullptr); }
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;
  void on_waited(comm::Operation, const std::string&, TimePoint, TimePoint wait) noexcept override {
    total_ += Clock::now() - wait;
  }
  double seconds() const { return ::seconds(total_); }

 private:
  Clock::duration total_{0};
};

/// Seconds of one update's gradients: on the rank that takes longest, and waited for transfers on the one
/// that waits least. The others also wait for that one to come along.
struct Update {
  double time = 0, waited = 0;
};

/// No micro-batch: the ranks send each other the same zeros, and nothing else is done.
Update run_update(parallel::Engine& engine, const std::vector<Stream>& micro, int64_t trained_tokens) {
  comm::barrier(engine.group());
  const Waits waits;
  const auto start = Clock::now();
  engine.forward_backward(micro, trained_tokens);
  engine.finish_gradients();
  at::Tensor time = at::tensor({seconds(Clock::now() - start)}, at::kDouble);
  at::Tensor waited = at::tensor({waits.seconds()}, at::kDouble);
  comm::all_reduce(time, comm::Op::max, engine.group());
  comm::all_reduce(waited, comm::Op::min, engine.group());
  return {time.item<double>(), waited.item<double>()};
}

std::string spread(std::vector<double> values, int digits) {
  std::ranges::sort(values);
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << values.front() << " / " << values[values.size() / 2]
      << " / " << values.back();
  return out.str();
}

struct Task {
  std::string folder;
  int64_t bf16 = 0, runs = 5, rows = 4, tokens = 200;
  int64_t zero = -1;  // all
};

Stream stream_of(const Task& task, int rank) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < task.tokens; ++i) ids.push_back(static_cast<int32_t>(1000 + 31 * i + rank));
  return make_stream(std::vector<RowView>(static_cast<size_t>(task.rows), RowView{ids, ids, 1}));
}

void measure(const comm::Session& session, const Task& task, int zero_stage) {
  const auto dtype = task.bf16 != 0 ? at::kBFloat16 : at::kFloat;
  parallel::Plan plan;
  plan.zero_stage = zero_stage;
  parallel::Layout layout(plan, session.group());
  const auto keep = [&](Parameter& parameter) { layout.keep(parameter); };
  model::Decoder decoder =
      model::Decoder::load(task.folder, {.dtype = dtype, .log = Log(1), .on_parameter = keep});
  tune::SelectionOptions all;
  all.finetuning_type = tune::FinetuningType::full;
  tune::apply_selection(decoder, tune::select(decoder.config(), all), {}, 1);
  const auto engine = parallel::assemble(decoder.chain(), layout);

  const std::vector<Stream> micro = {stream_of(task, session.group().rank())};
  const int64_t trained_tokens = micro.front().num_trained * session.group().size();
  std::vector<double> update, alone, exposed, hidden;
  for (int64_t run = -1; run < task.runs; ++run) {
    const Update computing = run_update(*engine, micro, trained_tokens);
    const Update sending = run_update(*engine, {}, trained_tokens);
    if (run < 0) continue;  // what is made once
    update.push_back(computing.time);
    alone.push_back(sending.waited);
    exposed.push_back(computing.waited);
    hidden.push_back(100 * (1 - computing.waited / sending.waited));
  }
  if (!session.is_first()) return;
  std::cout << "| " << (dtype == at::kFloat ? "f32" : "bf16") << " | " << zero_stage << " | "
            << spread(update, 2) << " | " << spread(alone, 3) << " | " << spread(exposed, 3) << " | "
            << spread(hidden, 1) << " |" << std::endl;
}

Task read_task(int argc, char** argv) {
  if (argc < 2) throw ConfigError("give the folder of a model");
  Task task;
  task.folder = argv[1];
  const std::map<std::string, int64_t*> keys = {{"bf16", &task.bf16},
                                                {"zero", &task.zero},
                                                {"runs", &task.runs},
                                                {"rows", &task.rows},
                                                {"tokens", &task.tokens}};
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    const auto found = keys.find(word.substr(0, equals));
    if (found == keys.end()) throw ConfigError("no key of bench_hidden: " + word);
    std::from_chars(word.data() + equals + 1, word.data() + word.size(), *found->second);
  }
  if (std::min({task.runs, task.rows, task.tokens}) < 1 || task.zero > 3)
    throw ConfigError("runs, rows and tokens are at least 1, zero at most 3");
  return task;
}

}  // namespace

int main(int argc, char** argv) {
  host_allocator::install();
  return comm::run_main(argc, argv, [&](const comm::Session& session) {
    const Task task = read_task(argc, argv);
    if (session.group().size() == 1) throw ConfigError("one rank sends nothing; give --cards 2");
    if (session.is_first())
      std::cout << "| precision | zero_stage | update s | transfers alone s | exposed s | hidden % |\n"
                << "| --- | --- | --- | --- | --- | --- |\n";
    for (const int zero_stage : {0, 1, 2, 3})
      if (task.zero < 0 || task.zero == zero_stage) measure(session, task, zero_stage);
  });
}
