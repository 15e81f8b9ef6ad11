// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "duoka/core/deferred_products.h"
#include "duoka/core/layer.h"
#include "duoka/core/samples.h"
#include "duoka/parallel/assemble.h"
#include "duoka/parallel/pipeline_schedule.h"

namespace duoka::test {

// Pipelines whose stages take equally long, however many cores there are: they sleep.

/// What a stage takes for one micro-batch; the gradients by the input and by the weight take the same.
struct SleepTimes {
  std::chrono::milliseconds forward{20};
  std::chrono::milliseconds backward_input{20};
  std::chrono::milliseconds backward_weight{20};
};

class SleepingLayer final : public Layer {
 public:
  SleepingLayer(int64_t number, const SleepTimes& times)
      : times_(times),
        weight_(Parameter::whole("layers." + std::to_string(number) + ".weight", at::zeros({1}), true)) {}

  std::vector<Parameter*> parameters() override { return {&weight_}; }
  at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved&) override {
    std::this_thread::sleep_for(times_.forward);
    return x.defined() ? x + weight_.value : at::zeros({stream.num_tokens(), 1});
  }
  at::Tensor backward(const at::Tensor& dy, const Stream&, Saved&) override {
    std::this_thread::sleep_for(times_.backward_input);
    const auto add_gradient = [this, dy] {
      std::this_thread::sleep_for(times_.backward_weight);
      weight_.accumulate(dy.sum().view({1}));
    };
    if (DeferredProducts* later = DeferredProducts::current())
      later->put_off(add_gradient);
    else
      add_gradient();
    return dy;
  }

 private:
  SleepTimes times_;
  Parameter weight_;
};

/// Takes no time.
class SumOfOutputs final : public Objective {
 public:
  std::vector<Parameter*> parameters() override { return {}; }
  double loss_sum(const at::Tensor& x, const Stream&) override { return x.sum().item<double>(); }
  Share loss_and_gradient(const at::Tensor& x, const Stream& stream, double scale) override {
    return {loss_sum(x, stream), at::full_like(x, scale)};
  }
};

/// One update of `num_micro` micro-batches over a layer a stage, traced into folder/trace.json. Collective
/// over `group`: all of it is the pipeline.
inline void run_sleeping_pipeline(parallel::PipelineSchedule schedule, int num_chunks, int num_micro,
                                  const SleepTimes& times, const comm::Group& group,
                                  const std::filesystem::path& folder) {
  parallel::Plan plan{.pipeline = group.size(), .schedule = schedule, .chunks = num_chunks};
  const int num_stages = group.size() * num_chunks;
  plan.split.assign(static_cast<size_t>(num_stages), 1);
  ++plan.split.back();  // the objective
  parallel::Layout layout(plan, group);
  layout.share_layers({std::vector<double>(static_cast<size_t>(num_stages) + 1, 1.0), /*width=*/1});
  Chain chain;
  for (const LayerRange& range : layout.layers())
    for (int64_t layer = range.first; layer < range.last && layer < num_stages; ++layer)
      chain.layers.push_back(std::make_unique<SleepingLayer>(layer, times));
  if (group.rank() == group.size() - 1) chain.objective = std::make_unique<SumOfOutputs>();
  const auto engine = parallel::assemble(chain, layout);
  const std::vector<int64_t> one{0};
  const std::vector<Stream> micro(static_cast<size_t>(num_micro), make_samples(one));
  engine->start_trace(folder);
  engine->forward_backward(micro, num_micro);
  engine->finish_gradients();
  engine->stop_trace();
}

/// The part of an update in which ranks do no action, by the spans of a trace: 1 - the ranks' time in actions
/// / (ranks x time from the first action's start to the last one's end).
inline double idle_share(const std::filesystem::path& trace, int num_ranks) {
  std::ifstream file(trace);
  double busy = 0, start = 1e300, end = 0;
  for (const auto& event : nlohmann::json::parse(file)) {
    const std::string name = event.at("name");
    if (event.at("ph") != "X" || !(name.starts_with("forward") || name.starts_with("backward"))) continue;
    const double begin = event.at("ts"), length = event.at("dur");
    busy += length;
    start = std::min(start, begin);
    end = std::max(end, begin + length);
  }
  return 1 - busy / (num_ranks * (end - start));
}

/// The same by the formula of the schedule, for equal stages; for zero_bubble, which has none, as simulated.
inline double idle_share_by_formula(parallel::PipelineSchedule schedule, int num_chunks, int num_micro,
                                    int num_ranks, const SleepTimes& times) {
  const double p = num_ranks, m = num_micro, v = num_chunks;
  if (schedule != parallel::PipelineSchedule::zero_bubble) return (p - 1) / (v * m + p - 1);
  const auto each = [&](std::chrono::milliseconds time) {
    return std::vector<double>(static_cast<size_t>(num_ranks), static_cast<double>(time.count()));
  };
  const auto timeline =
      simulate(parallel::pipeline_lists({schedule, num_ranks, num_micro}),
               {each(times.forward), each(times.backward_input), each(times.backward_weight)});
  double sum = 0;
  for (const double idle : timeline.idle_share) sum += idle;
  return sum / p;
}

}  // namespace duoka::test
