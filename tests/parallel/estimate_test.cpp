// SPDX-License-Identifier: Apache-2.0
// What estimate() works out against what layers save and ranks send.
#include "duoka/parallel/estimate.h"

#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/parallel/assemble.h"
#include "duoka/parallel/layout.h"
#include "duoka/tune/lora.h"
#include "duoka/tune/selection.h"
#include "parallel/gradient_sums.h"
#include "parallel/walk.h"
#include "support/run_ranks.h"
#include "support/test_files.h"

namespace duoka::parallel {
namespace {

enum class Way { full, lora, last_layer };

struct Shape {
  std::string model = "golden-llama";
  Way way = Way::full;
  bool is_tied = true;
  at::ScalarType dtype = at::kFloat;
};

model::ModelConfig config_of(const Shape& shape) {
  model::ModelConfig config = model::read_config(testing::fixture("models/" + shape.model));
  config.tie_word_embeddings = shape.is_tied;
  return config;
}

void tune(model::Decoder& decoder, Way way) {
  tune::SelectionOptions options;
  if (way != Way::lora) options.finetuning_type = tune::FinetuningType::full;
  if (way == Way::last_layer) options.freeze_trainable_layers = 1;
  tune::apply_selection(decoder, tune::select(decoder.config(), options), {.rank = 4}, 1);
}

Workload workload_of(const Shape& shape) {
  Workload workload;
  workload.model = config_of(shape);
  workload.dtype = shape.dtype;
  workload.tune = [way = shape.way](model::Decoder& decoder) { tune(decoder, way); };
  workload.rows = 2;
  workload.row_tokens = 16;
  return workload;
}

Stream stream_of(const Workload& workload, int number = 0) {
  std::vector<std::vector<int32_t>> ids(static_cast<size_t>(workload.rows));
  std::vector<RowView> rows;
  for (auto& row : ids) {
    row.resize(static_cast<size_t>(workload.row_tokens));
    std::iota(row.begin(), row.end(), ++number);
    rows.push_back({row, row, static_cast<uint64_t>(number)});
  }
  return make_stream(rows, at::kCPU);
}

std::string name_of(const Shape& shape) {
  std::string name = shape.model.substr(shape.model.find('-') + 1);
  name += shape.way == Way::full ? "_full" : shape.way == Way::lora ? "_lora" : "_last_layer";
  return name + (shape.dtype == at::kFloat ? "_f32" : "_bf16");
}

void PrintTo(const Shape& shape, std::ostream* out) { *out << name_of(shape); }

class SavedBytes : public ::testing::TestWithParam<Shape> {};

TEST_P(SavedBytes, AreThoseOfTheFormulas) {
  const at::NoGradGuard no_grad;
  const Workload workload = workload_of(GetParam());
  model::Decoder decoder = model::Decoder::random(workload.model, 1, {.dtype = workload.dtype});
  workload.tune(decoder);
  Chain& chain = decoder.chain();
  WalkOptions walk{false, std::numeric_limits<int64_t>::max()};
  for (const auto& [parameter, stage] : complete_stages(chain))
    walk.lowest_stage = std::min(walk.lowest_stage, stage);
  WalkObserver nobody;
  at::Tensor x;
  const auto traces = forward_range(chain, {0, static_cast<int64_t>(chain.layers.size())},
                                    stream_of(workload), walk, nobody, x);
  int64_t bytes = static_cast<int64_t>(x.nbytes());
  for (const Trace& trace : traces) bytes += trace.saved.num_bytes();
  EXPECT_EQ(estimate(workload, {}, 1).ranks.at(0).memory.activations, bytes);
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const char* model : {"golden-llama", "golden-mistral", "golden-qwen2", "golden-qwen3"})
    for (const Way way : {Way::full, Way::lora, Way::last_layer})
      for (const auto dtype : {at::kFloat, at::kBFloat16}) all.push_back({model, way, true, dtype});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Models, SavedBytes, ::testing::ValuesIn(shapes()),
                         [](const auto& test) { return name_of(test.param); });

/// By axis and operation.
using Counts = std::map<std::pair<std::string, std::string>, comm::Traffic::Count>;

void add_group(const comm::Group& group, Counts& counts) {
  for (int i = 0; i < comm::num_operations && group.size() > 1; ++i) {
    const auto operation = static_cast<comm::Operation>(i);
    const auto count = group.traffic().count(operation);
    if (count.calls == 0) continue;
    auto& sum = counts[{group.axis(), comm::operation_name(operation)}];
    sum.calls += count.calls;
    sum.bytes += count.bytes;
  }
}

/// The wires of the context axis are the layout's own: counts what goes through it.
class CountedContext final : public model::ContextAxis {
 public:
  explicit CountedContext(std::shared_ptr<const model::ContextAxis> axis) : axis_(std::move(axis)) {}
  int rank() const override { return axis_->rank(); }
  int size() const override { return axis_->size(); }
  std::unique_ptr<Exchange> start_exchange(const at::Tensor& to_next,
                                           at::Tensor from_previous) const override {
    ++count.calls;
    count.bytes += static_cast<int64_t>(to_next.nbytes());
    return axis_->start_exchange(to_next, std::move(from_previous));
  }

  mutable comm::Traffic::Count count;

 private:
  std::shared_ptr<const model::ContextAxis> axis_;
};

struct Case {
  std::string name;
  int num_ranks = 2;
  Plan plan = {};
  Shape shape = {};
  EngineOptions engine = {};
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// What this rank sends in an update.
Counts counts_of(const Workload& workload, Layout& layout) {
  layout.share_layers(stack_of(workload.model));
  const auto context = std::make_shared<CountedContext>(layout.context_axis());
  model::LoadOptions options{.tensor_axis = layout.tensor_axis(),
                             .layers = layout.layers(),
                             .on_parameter = [&](Parameter& parameter) { layout.keep(parameter); }};
  if (context->size() > 1) options.context_axis = context;
  model::Decoder decoder = model::Decoder::random(workload.model, 1, options);
  workload.tune(decoder);
  const auto engine = assemble(decoder.chain(), layout, workload.engine);
  auto& mesh = const_cast<comm::Mesh&>(layout.mesh());  // the group is there: asking makes nothing
  const SumGroups& sums = layout.sum_groups();
  std::vector<comm::Group> groups = {sums.shard, sums.slice_replicas, sums.whole_replicas,
                                     mesh.group({comm::Axis::tensor})};
  if (!sums.tied_replicas.empty()) groups.push_back(sums.tied_replicas.begin()->second);
  for (const comm::Group& one : groups) one.traffic().reset();

  std::vector<Stream> micro;
  int64_t trained = 0;
  for (int i = 0; i < workload.accumulation; ++i) micro.push_back(stream_of(workload, i));
  for (const Stream& stream : micro) trained += stream.num_trained * layout.data_share().size;
  engine->forward_backward(micro, trained);
  engine->finish_gradients();
  engine->publish();
  Counts counts;
  for (const comm::Group& one : groups) add_group(one, counts);
  if (context->size() > 1) counts[{"context", "send"}] = context->count;
  return counts;
}

class TrafficOfLayouts : public ::testing::TestWithParam<Case> {};

TEST_P(TrafficOfLayouts, IsThatOfTheFormulas) {
  const Case& c = GetParam();
  Workload workload = workload_of(c.shape);
  workload.engine = c.engine;
  workload.accumulation = 2;
  const Estimate planned = estimate(workload, c.plan, c.num_ranks);
  test::run_ranks(c.num_ranks, [&](const comm::Group& group) {
    Layout layout(c.plan, group);
    const Counts found = counts_of(workload, layout);
    const comm::Mesh& mesh = layout.mesh();
    // The estimate is of the rank that has most: over a context axis not the first, whose part ends with a
    // token that does not train.
    if (mesh.coordinate(comm::Axis::tensor) != 0 ||
        mesh.coordinate(comm::Axis::context) + 1 != mesh.size(comm::Axis::context))
      return;
    Counts wanted;
    for (const TrafficEstimate& traffic :
         planned.ranks.at(static_cast<size_t>(mesh.coordinate(comm::Axis::pipeline))).traffic) {
      if (traffic.what == "pipeline") continue;  // over wires of its own
      auto& sum = wanted[{traffic.axis, comm::operation_name(traffic.operation)}];
      sum.calls += traffic.calls;
      sum.bytes += traffic.bytes;
    }
    for (const auto& [key, count] : wanted) {
      const auto other = found.find(key);
      const auto [calls, bytes] = other == found.end() ? comm::Traffic::Count{} : other->second;
      EXPECT_EQ(calls, count.calls) << "calls of " << key.first << ' ' << key.second << ", rank "
                                    << group.rank();
      EXPECT_EQ(bytes, count.bytes) << "bytes of " << key.first << ' ' << key.second << ", rank "
                                    << group.rank();
    }
    for (const auto& [key, count] : found)
      EXPECT_TRUE(wanted.contains(key)) << key.first << ' ' << key.second;
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const Shape untied{.is_tied = false}, lora{.way = Way::lora}, last{.way = Way::last_layer};
  for (const int stage : {0, 1, 2, 3}) {
    const std::string zero = "zero" + std::to_string(stage);
    all.push_back({zero, 2, {.zero_stage = stage}});
    all.push_back({zero + "_untied", 2, {.zero_stage = stage}, untied});
    all.push_back({zero + "_lora", 2, {.zero_stage = stage}, lora});
    all.push_back({zero + "_last_layer", 2, {.zero_stage = stage}, last});
    all.push_back({zero + "_exact", 2, {.zero_stage = stage}, {}, {.exact = true}});
    all.push_back({zero + "_recompute_small_buckets",
                   2,
                   {.zero_stage = stage},
                   {},
                   {.recompute = true, .bucket_bytes = 1}});
    all.push_back({zero + "_tensor", 4, {.zero_stage = stage, .tensor = 2}});
    all.push_back({zero + "_context", 4, {.zero_stage = stage, .context = 2}, untied});
    if (stage > 0) all.push_back({zero + "_hybrid", 4, {.zero_stage = stage, .shard = 2}});
    if (stage < 2) all.push_back({zero + "_pipeline", 4, {.zero_stage = stage, .pipeline = 2}});
  }
  all.push_back({"zero1_hybrid_exact", 4, {.zero_stage = 1, .shard = 2}, {}, {.exact = true}});
  for (const bool recompute : {false, true}) {
    const std::string again = recompute ? "_recompute" : "";
    all.push_back({"tensor" + again, 2, {.tensor = 2}, {}, {.recompute = recompute}});
    all.push_back({"tensor_lora" + again, 2, {.tensor = 2}, lora, {.recompute = recompute}});
    all.push_back({"tensor_last_layer" + again, 2, {.tensor = 2}, last, {.recompute = recompute}});
    all.push_back({"context_lora" + again, 2, {.context = 2}, lora, {.recompute = recompute}});
    all.push_back({"context_last_layer" + again, 2, {.context = 2}, last, {.recompute = recompute}});
    all.push_back({"tensor_context" + again, 4, {.context = 2, .tensor = 2}, {}, {.recompute = recompute}});
    all.push_back({"pipeline_tensor" + again, 4, {.tensor = 2, .pipeline = 2}, {}, {.recompute = recompute}});
    all.push_back({"pipeline_lora" + again, 2, {.pipeline = 2}, lora, {.recompute = recompute}});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Grid, TrafficOfLayouts, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

TEST(Estimate, HoldsWhatTheTableOfTheDocsSays) {
  const Workload workload = workload_of({.is_tied = false, .dtype = at::kBFloat16});
  const int64_t p = model::num_parameters(workload.model);
  const auto at = [&](const Plan& plan) { return estimate(workload, plan, 8).ranks.at(0).memory; };
  EXPECT_EQ(at({}).parameters, 2 * p);
  EXPECT_EQ(at({}).gradients, 4 * p);
  EXPECT_EQ(at({}).optimizer, 12 * p);
  EXPECT_EQ(at({.zero_stage = 1}).optimizer, 12 * p / 8);  // all rows divide by eight
  EXPECT_EQ(at({.zero_stage = 1}).parameters, 2 * p);
  EXPECT_EQ(at({.zero_stage = 2}).gradients, 4 * p / 8);
  EXPECT_EQ(at({.zero_stage = 3}).parameters, 2 * p / 8);
  EXPECT_EQ(at({.zero_stage = 3, .shard = 4}).parameters, 2 * p / 4);
}

TEST(Estimate, CountsAlivePipelineMicroBatches) {
  Workload workload = workload_of({});
  workload.accumulation = 8;
  const auto activations = [&](PipelineSchedule schedule, size_t place) {
    return estimate(workload, {.pipeline = 2, .schedule = schedule, .split = {2, 2}}, 2)
        .ranks.at(place)
        .memory.activations;
  };
  // Place 0 has one of the two blocks; a few tensors travel.
  const int64_t output = workload.rows * workload.row_tokens * workload.model.hidden_size * 4;
  const int64_t block = (estimate(workload, {}, 1).ranks.at(0).memory.activations - output) / 2;
  const auto expect_alive = [&](PipelineSchedule schedule, size_t place, int64_t num_micro) {
    EXPECT_GE(activations(schedule, place), num_micro * block) << schedule_name(schedule);
    EXPECT_LE(activations(schedule, place), num_micro * block + 4 * output) << schedule_name(schedule);
  };
  expect_alive(PipelineSchedule::gpipe, 0, 8);
  expect_alive(PipelineSchedule::one_forward_one_backward, 0, 2);
  expect_alive(PipelineSchedule::one_forward_one_backward, 1, 1);
  EXPECT_GT(activations(PipelineSchedule::zero_bubble, 0), 2 * block);
  const Estimate found = estimate(workload, {.pipeline = 2}, 2);
  EXPECT_NEAR(found.idle_share(), 1.0 / 9, 0.15);  // (p - 1) / (m + p - 1) were the stages alike
}

TEST(Estimate, RefusesWhatATrainingWould) {
  const Workload workload = workload_of({});
  EXPECT_THAT(testing::message_of<ConfigError>([&] { estimate(workload, {.tensor = 4}, 4); }),
              ::testing::HasSubstr("sizes that work: 1, 2"));
  EXPECT_THROW(estimate(workload, {.tensor = 2}, 3), ConfigError);
  EXPECT_THROW(estimate(workload, {.pipeline = 8}, 8), ConfigError);
  Workload frozen = workload;
  frozen.tune = [](model::Decoder&) {};
  EXPECT_THROW(estimate(frozen, {}, 1), ConfigError);
}

TEST(Estimate, GroupsLieInsideAHostWhenItsCardsAreAMultipleOfTheirSpan) {
  Workload workload = workload_of({});
  const Estimate found = estimate(workload, {.zero_stage = 1, .shard = 2, .tensor = 2}, 16);
  for (const TrafficEstimate& traffic : found.ranks.at(0).traffic) {
    const int wanted = traffic.axis == "tensor" ? 2 : traffic.axis == "shard" ? 4 : 16;
    EXPECT_EQ(traffic.span, wanted) << traffic.axis;
  }
}

TEST(Estimate, WireBytesAreThoseOfARing) {
  const auto wire = [](comm::Operation operation) {
    return TrafficEstimate{"", "", 4, 4, operation, 1, 100}.wire_bytes();
  };
  EXPECT_DOUBLE_EQ(wire(comm::Operation::all_reduce), 150);
  EXPECT_DOUBLE_EQ(wire(comm::Operation::reduce_scatter), 75);
  EXPECT_DOUBLE_EQ(wire(comm::Operation::all_gather), 300);
  EXPECT_DOUBLE_EQ(wire(comm::Operation::send), 100);
}

}  // namespace
}  // namespace duoka::parallel
