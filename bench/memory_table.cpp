// SPDX-License-Identifier: Apache-2.0
// One layout of a training: tensors of each class on each rank, counted, beside what estimate() says.
//
//   memory_table MODEL_FOLDER [zero=0] [shard=0] [tensor=1] [context=1] [pipeline=1] [lora=0]
//   [bf16=0]
//                [recompute=0] [offload=0] [rows=1] [tokens=128] [accumulation=2] [--cards N]
//
// Prints a JSON line for each rank that is the largest of its place in the pipeline.
#include <charconv>
#include <chrono>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <thread>

#include "duoka/comm/collectives.h"
#include "duoka/comm/session.h"
#include "duoka/core/error.h"
#include "duoka/core/host_allocator.h"
#include "duoka/core/text.h"
#include "duoka/parallel/assemble.h"
#include "duoka/parallel/estimate.h"
#include "duoka/parallel/layout.h"
#include "duoka/train/optimizer.h"
#include "duoka/tune/lora.h"
#include "duoka/tune/selection.h"

namespace {

using namespace duoka;

/// key=value words.
using Keys = std::map<std::string, int64_t>;

Keys read_keys(int argc, char** argv) {
  Keys keys = {{"zero", 0},     {"shard", 0},     {"tensor", 1},   {"context", 1},
               {"pipeline", 1}, {"lora", 0},      {"bf16", 0},     {"offload", 0},
               {"rows", 1},     {"recompute", 0}, {"tokens", 128}, {"accumulation", 2}};
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    int64_t value = 0;
    std::from_chars(word.data() + equals + 1, word.data() + word.size(), value);
    const auto found = keys.find(word.substr(0, equals));
    if (found == keys.end()) throw ConfigError("no key of memory_table: " + word);
    found->second = value;
  }
  return keys;
}

parallel::Plan plan_of(const Keys& keys) {
  const auto number = [&](const char* key) { return static_cast<int>(keys.at(key)); };
  return {.zero_stage = number("zero"),
          .shard = number("shard"),
          .context = number("context"),
          .tensor = number("tensor"),
          .pipeline = number("pipeline")};
}

void tune(model::Decoder& decoder, bool is_lora) {
  tune::SelectionOptions options;
  if (!is_lora) options.finetuning_type = tune::FinetuningType::full;
  tune::apply_selection(decoder, tune::select(decoder.config(), options), {}, 1);
}

parallel::Workload workload_of(const std::string& folder, const Keys& keys,
                               const train::Optimizer& optimizer) {
  parallel::Workload workload;
  workload.model = model::read_config(std::filesystem::path(folder));
  workload.dtype = keys.at("bf16") != 0 ? at::kBFloat16 : at::kFloat;
  workload.tune = [is_lora = keys.at("lora") != 0](model::Decoder& decoder) { tune(decoder, is_lora); };
  workload.engine.recompute = keys.at("recompute") != 0;
  workload.engine.offload_activations = workload.engine.offload_optimizer = keys.at("offload") != 0;
  workload.engine.offload_folder = std::filesystem::temp_directory_path();
  workload.optimizer_bytes = optimizer.state_bytes_per_element(4);
  workload.rows = keys.at("rows");
  workload.row_tokens = keys.at("tokens");
  workload.accumulation = keys.at("accumulation");
  return workload;
}

std::vector<Stream> streams_of(const parallel::Workload& workload, int share) {
  std::vector<int32_t> ids(static_cast<size_t>(workload.row_tokens));
  std::vector<Stream> streams;
  for (int64_t i = 0; i < workload.accumulation; ++i) {
    std::iota(ids.begin(), ids.end(), static_cast<int32_t>(i + share));
    for (int32_t& id : ids) id = static_cast<int32_t>(id % workload.model.vocab_size);
    streams.push_back(
        make_stream(std::vector<RowView>(static_cast<size_t>(workload.rows), RowView{ids, ids, 1})));
  }
  return streams;
}

/// The most there was of a class between layers: what then lives outlives them.
struct Most {
  int64_t gradients = 0, activations = 0;

  /// On the way back a layer's gradients are there that are not to stay.
  void look(bool is_way_back) {
    std::this_thread::sleep_for(wait);
    if (!is_way_back) gradients = std::max(gradients, host_allocator::live_bytes(MemoryClass::gradients));
    activations = std::max(activations, host_allocator::live_bytes(MemoryClass::activations));
  }
  /// Threads of the wires let go of their tensors a little later than they say that they are done.
  static constexpr std::chrono::milliseconds wait{5};
};

class Watched final : public Layer {
 public:
  Watched(std::unique_ptr<Layer> layer, Most& most, bool recompute)
      : layer_(std::move(layer)), most_(most), recompute_(recompute) {}
  std::vector<Parameter*> parameters() override { return layer_->parameters(); }
  at::Tensor forward(const at::Tensor& x, const Stream& stream, Saved& saved) override {
    const bool is_way_back = recompute_ && saved.is_recording();
    most_.look(is_way_back);
    at::Tensor y = layer_->forward(x, stream, saved);
    most_.look(is_way_back);
    return y;
  }
  at::Tensor backward(const at::Tensor& dy, const Stream& stream, Saved& saved) override {
    return layer_->backward(dy, stream, saved);
  }

 private:
  std::unique_ptr<Layer> layer_;
  Most& most_;
  bool recompute_;
};

class WatchedObjective final : public Objective {
 public:
  WatchedObjective(std::unique_ptr<Objective> objective, Most& most)
      : objective_(std::move(objective)), most_(most) {}
  std::vector<Parameter*> parameters() override { return objective_->parameters(); }
  double loss_sum(const at::Tensor& x, const Stream& stream) override {
    return objective_->loss_sum(x, stream);
  }
  Share loss_and_gradient(const at::Tensor& x, const Stream& stream, double scale) override {
    most_.look(false);
    return objective_->loss_and_gradient(x, stream, scale);
  }

 private:
  std::unique_ptr<Objective> objective_;
  Most& most_;
};

void watch(Chain& chain, Most& most, bool recompute) {
  for (auto& layer : chain.layers) layer = std::make_unique<Watched>(std::move(layer), most, recompute);
  if (chain.objective) chain.objective = std::make_unique<WatchedObjective>(std::move(chain.objective), most);
}

/// One update: the next would find and leave what this one does.
void train(parallel::Engine& engine, const train::Optimizer& optimizer, const std::vector<Stream>& micro,
           int num_shares, Most& most) {
  const int64_t trained =
      std::accumulate(micro.begin(), micro.end(), int64_t{0},
                      [](int64_t sum, const Stream& one) { return sum + one.num_trained; });
  host_allocator::reset_peak();
  engine.forward_backward(micro, trained * num_shares);
  engine.finish_gradients();
  most.look(false);
  optimizer.step(engine.slots(), 1e-5);
  engine.publish();
}

std::string json(const char* name, int64_t measured, int64_t formula) {
  return text("\"", name, "\": [", measured, ", ", formula, "]");
}

std::string line_of(const parallel::Layout& layout, const parallel::RankEstimate& wanted, const Most& most) {
  const auto& memory = wanted.memory;
  const int place = layout.mesh().coordinate(comm::Axis::pipeline);
  return text("{\"rank\": ", layout.world().rank(), ", \"place\": ", place, ", ",
              json("parameters", host_allocator::live_bytes(MemoryClass::parameters), memory.parameters),
              ", ", json("gradients", most.gradients, memory.gradients), ", ",
              json("optimizer", host_allocator::live_bytes(MemoryClass::optimizer), memory.optimizer), ", ",
              json("activations", most.activations, memory.activations), ", ",
              json("peak", host_allocator::peak_bytes(), memory.total()), "}\n");
}

void measure(const comm::Session& session, const std::string& folder, const Keys& keys) {
  const auto optimizer = train::make_adamw({});
  const parallel::Workload workload = workload_of(folder, keys, *optimizer);
  parallel::Layout layout(plan_of(keys), session.group());
  layout.share_layers(parallel::stack_of(workload.model));
  const auto keep = [&](Parameter& parameter) { layout.keep(parameter); };
  Most most;
  model::Decoder decoder = model::Decoder::load(folder, {.dtype = workload.dtype,
                                                         .log = Log(1),
                                                         .tensor_axis = layout.tensor_axis(),
                                                         .context_axis = layout.context_axis(),
                                                         .layers = layout.layers(),
                                                         .on_parameter = keep});
  workload.tune(decoder);
  watch(decoder.chain(), most, workload.engine.recompute);
  const auto engine = parallel::assemble(decoder.chain(), layout, workload.engine);
  optimizer->prepare(engine->slots());
  const auto share = layout.data_share();
  train(*engine, *optimizer, streams_of(workload, share.rank), share.size, most);

  const parallel::Estimate estimate = parallel::estimate(workload, plan_of(keys), session.group().size());
  const comm::Mesh& mesh = layout.mesh();
  const bool is_largest = mesh.coordinate(comm::Axis::shard) == 0 &&
                          mesh.coordinate(comm::Axis::context) == 0 &&
                          mesh.coordinate(comm::Axis::tensor) == 0 && mesh.coordinate(comm::Axis::data) == 0;
  const auto place = static_cast<size_t>(mesh.coordinate(comm::Axis::pipeline));
  const std::string own = is_largest ? line_of(layout, estimate.ranks.at(place), most) : "";
  for (const std::string& line : comm::all_gather_text(own, session.group()))
    if (session.is_first()) std::cout << line;
}

}  // namespace

int main(int argc, char** argv) {
  host_allocator::install();
  return comm::run_main(argc, argv, [&](const comm::Session& session) {
    if (argc < 2) throw ConfigError("give the folder of a model");
    measure(session, argv[1], read_keys(argc, argv));
  });
}
