// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/engine.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include "core/offload_store.h"
#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/stream_cut.h"
#include "duoka/core/text.h"
#include "duoka/parallel/layout.h"
#include "parallel/gradient_sums.h"
#include "parallel/loss_sums.h"
#include "parallel/make_slots.h"
#include "parallel/parameter_shards.h"
#include "parallel/pipeline_walk.h"
#include "parallel/row_publisher.h"
#include "parallel/same_model.h"
#include "parallel/stage_work.h"
#include "parallel/sum_tree.h"
#include "parallel/trace.h"
#include "parallel/update_steps.h"
#include "parallel/walk.h"
#include "parallel/whole_parameters.h"

namespace duoka::parallel {

namespace {

constexpr const char* nothing_to_train =
    "nothing to train: every parameter is frozen; check finetuning_type and what it selects";

/// Below it nothing is walked back. Some rank must have something to train: of a pipeline others may have
/// only frozen layers.
int64_t checked_lowest_stage(const Chain& chain, const comm::Group& world) {
  const int64_t lowest = lowest_trained_stage(chain);
  at::Tensor on_any_rank = at::tensor({lowest}, at::kLong);
  comm::all_reduce(on_any_rank, comm::Op::min, world);
  if (on_any_rank.item<int64_t>() == std::numeric_limits<int64_t>::max()) throw ConfigError(nothing_to_train);
  return lowest;
}

/// Before gradients are allocated and masters are copied, the ranks must agree.
Chain& agreed(Chain& chain, const Layout& layout) {
  if (!chain.objective && layout.plan().pipeline == 1) throw StateError("the chain has no objective");
  const at::NoGradGuard no_grad;
  const SumGroups& groups = layout.sum_groups();
  for (const comm::Group* group : {&groups.shard, &groups.slice_replicas}) {
    check_same_model(chain.parameters(), *group);
    share_trainable_values(chain.parameters(), *group);
  }
  for (Parameter* parameter : chain.parameters())
    if (groups.is_tied(*parameter)) share_trainable_values({parameter}, groups.replicas_of(*parameter));
  return chain;
}

void check_trained_tokens(std::span<const Stream> micro, int64_t trained_tokens) {
  int64_t total = 0;
  for (const Stream& stream : micro) total += stream.num_trained;
  if (trained_tokens >= 1 && total <= trained_tokens) return;
  throw StateError(text("forward_backward: trained_tokens = ", trained_tokens,
                        " for the whole update, but this rank alone has ", total,
                        "; it must be the sum over all ranks and micro-batches, at least 1"));
}

}  // namespace

class Engine::Impl {
 public:
  Impl(Chain& chain, Layout& layout, const EngineOptions& options)
      : chain_(agreed(chain, layout)), layout_(layout), exact_(options.exact) {
    walk_ = {options.recompute, checked_lowest_stage(chain, layout.world())};
    if (options.offload_activations || options.offload_optimizer)
      store_ = make_offload_store(chain.parameters().front()->value.device(), options.offload_folder);
    if (options.offload_activations) activations_ = std::make_unique<ActivationOffload>(store_, chain);
    walk_.offload = activations_.get();
    if (layout.plan().pipeline > 1) pipeline_ = std::make_unique<PipelineWalk>(chain, layout, walk_);
    make_sums(options.bucket_bytes);
    if (layout.shards() != nullptr) layout.shards()->gather_for(chain);
    const auto stages = complete_stages(chain);
    const auto sum_of = [&](Parameter& parameter) {
      return sums_of_stage(stages.at(&parameter)).sum_of(parameter);
    };
    owned_ = make_slots(chain, layout.sum_groups(), layout.shards(), sum_of,
                        options.offload_optimizer ? store_ : nullptr);
    if (layout.sum_groups().shard.size() > 1 && layout.shards() == nullptr)
      publisher_ = std::make_unique<RowPublisher>(trainable_of(chain), layout.sum_groups().shard);
  }

  ExactSum forward_backward(std::span<const Stream> micro, int64_t trained_tokens) {
    const at::NoGradGuard no_grad;
    if (sums_.front()->is_under_way())
      throw StateError("forward_backward() before finish_gradients() of the last one");
    check_trained_tokens(micro, trained_tokens);
    if (trace_) trace_->begin_update(next_update_++);
    const std::vector<Stream> parts = parts_of(micro);
    const double scale = 1.0 / static_cast<double>(trained_tokens);
    if (pipeline_) return forward_backward_in_pipeline(useful(micro, parts), scale);
    GradientSums& sums = *sums_.front();
    const std::vector<const Stream*> streams = steps_of(micro, parts);
    const auto order = order_of_steps(static_cast<int64_t>(streams.size()), exact_);
    ExactSum loss_sum;
    StageWork work = stage_work(walk_.lowest_stage);
    for (size_t i = 0; i < order.size(); ++i) {
      const Stream* stream = streams[static_cast<size_t>(order[i].leaf)];
      sums.begin_step(
          {i + 1 == order.size(), order[i].num_additions, stream != nullptr ? stream->num_tokens() : 0});
      work.set_micro(order[i].leaf);
      if (stream != nullptr)
        loss_sum.add(walk_forward_backward(chain_, *stream, scale, walk_, work));
      else if (layout_.shards() != nullptr)
        walk_idle(chain_, walk_, work);
      sums.complete(0);
    }
    return counts_loss() ? loss_sum : ExactSum();
  }

  void finish_gradients() {
    const at::NoGradGuard no_grad;
    for (const auto& sums : sums_) sums->finish();
  }

  void publish() {
    const at::NoGradGuard no_grad;
    owned_.make_visible();
    if (publisher_) publisher_->publish();
  }

  LossSums evaluate(std::span<const Stream> streams) {
    const at::NoGradGuard no_grad;
    const std::vector<Stream> parts = parts_of(streams);
    std::vector<const Stream*> steps = useful(streams, parts);
    if (layout_.shards() != nullptr) steps.resize(agreed_count(steps.size()), nullptr);
    LossSums own;
    if (pipeline_) {
      own.loss_sum = pipeline_->loss_sum(steps);
      for (const Stream* stream : steps) own.num_trained += stream != nullptr ? stream->num_trained : 0;
    } else {
      StageWork work = stage_work(0);
      own = walk_streams(chain_, steps, work);
    }
    if (!counts_loss()) own = {};
    return sum_over(own, layout_.world());
  }

  void with_whole_parameters(const std::function<void(const WholeParameter&)>& body) {
    const WholeParameters parameters(pieces_of(chain_, layout_.sum_groups(), layout_.shards()),
                                     layout_.world());
    if (layout_.world().rank() == 0)
      parameters.lead(body);
    else
      parameters.help();
  }

  std::span<Slot> slots() { return owned_.slots; }
  OffloadTraffic offload_traffic() const {
    const auto traffic = store_ ? store_->traffic() : OffloadStore::Traffic{};
    return {traffic.bytes_out, traffic.bytes_in};
  }
  const Layout& layout() const { return layout_; }
  TraceFile* trace() { return trace_.get(); }

  void start_trace(const std::filesystem::path& folder, int64_t first_update) {
    trace_folder_ = folder;
    trace_failure_.clear();
    next_update_ = first_update;
    try {
      trace_ = begin_trace(folder, layout_.world());
    } catch (const SystemError& error) {
      trace_failure_ = error.what();  // a picture is not worth the run
    }
    watch_transfers(trace_.get());
  }

  std::string stop_trace() {
    if (trace_) trace_->flush();
    if (trace_ && trace_failure_.empty()) trace_failure_ = trace_->failure();
    watch_transfers(nullptr);
    trace_.reset();
    return end_trace(trace_folder_, trace_failure_, layout_.world());
  }

  ~Impl() {
    if (trace_) watch_transfers(nullptr);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

 private:
  /// Ranks of the tensor and the pipeline axis walk the same tokens; the loss of one of them counts.
  bool counts_loss() const {
    return layout_.mesh().coordinate(comm::Axis::tensor) == 0 && chain_.objective != nullptr;
  }

  StageWork stage_work(int64_t lowest_stage) {
    const StageWork::Way way{.top = static_cast<int64_t>(chain_.layers.size()), .bottom = lowest_stage};
    return {layout_.shards(), sums_.front().get(), trace_.get(), way};
  }

  void watch_transfers(TraceFile* trace) {
    comm::TransferWatch::set_current(trace);
    if (pipeline_) pipeline_->set_trace(trace);
  }

  void make_sums(int64_t bucket_bytes) {
    sum_stages_ = {{0, static_cast<int64_t>(chain_.layers.size()) + 1}};
    if (pipeline_) sum_stages_ = pipeline_->stages();
    const bool each_step = layout_.plan().zero_stage >= 2;
    for (const LayerRange& stages : sum_stages_)
      sums_.push_back(
          make_gradient_sums(chain_, stages, layout_.sum_groups(), bucket_bytes, each_step, exact_));
  }

  GradientSums& sums_of_stage(int64_t stage) {
    size_t i = 0;
    while (!sum_stages_[i].contains(stage)) ++i;
    return *sums_[i];
  }

  ExactSum forward_backward_in_pipeline(std::vector<const Stream*> streams, double scale) {
    if (talks_each_step()) streams.resize(agreed_count(streams.size()), nullptr);
    ExactSum loss_sum = pipeline_->forward_backward(streams, scale, sums_);
    return counts_loss() ? loss_sum : ExactSum();
  }

  /// What this rank computes of each micro-batch, where the context axis shares its tokens; else nothing.
  std::vector<Stream> parts_of(std::span<const Stream> micro) const {
    std::vector<Stream> parts;
    const auto axis = layout_.context_axis();
    if (axis->size() > 1)
      for (const Stream& stream : micro) parts.push_back(cut_stream(stream, axis->rank(), axis->size()));
    return parts;
  }

  /// Those that have something to train, on whichever rank of the context axis; the others' gradient is zero.
  /// keeps_places: a null in the place of each of those.
  static std::vector<const Stream*> useful(std::span<const Stream> micro, const std::vector<Stream>& parts,
                                           bool keeps_places = false) {
    std::vector<const Stream*> streams;
    for (size_t i = 0; i < micro.size(); ++i)
      if (micro[i].num_trained > 0)
        streams.push_back(parts.empty() ? &micro[i] : &parts[i]);
      else if (keeps_places)
        streams.push_back(nullptr);
    return streams;
  }

  /// What to walk, null for a step without: every rank makes one at least, and where a step talks as many as
  /// the others. In a fixed order a micro-batch keeps its place, with something to train or not.
  std::vector<const Stream*> steps_of(std::span<const Stream> micro, const std::vector<Stream>& parts) {
    std::vector<const Stream*> steps = useful(micro, parts, /*keeps_places=*/exact_);
    steps.resize(std::max<size_t>(1, talks_each_step() ? agreed_count(steps.size()) : steps.size()), nullptr);
    return steps;
  }

  bool talks_each_step() const { return sums_.front()->talks_each_step() || layout_.shards() != nullptr; }

  size_t agreed_count(size_t own) {
    return static_cast<size_t>(parallel::agreed_count(static_cast<int64_t>(own), layout_.world()));
  }

  Chain& chain_;
  Layout& layout_;
  bool exact_;
  std::shared_ptr<OffloadStore> store_;             // null where nothing goes out
  std::unique_ptr<ActivationOffload> activations_;  // null where they stay
  WalkOptions walk_;
  std::unique_ptr<PipelineWalk> pipeline_;           // null without one
  std::vector<LayerRange> sum_stages_;               // all, or a pipeline's chunks…
  std::vector<std::unique_ptr<GradientSums>> sums_;  // …and the sums of each
  OwnedSlots owned_;
  std::unique_ptr<RowPublisher> publisher_;
  std::unique_ptr<TraceFile> trace_;  // null while nothing is traced
  std::filesystem::path trace_folder_;
  std::string trace_failure_;
  int64_t next_update_ = 0;  // its number in the trace
};

Engine::Engine(Chain& chain, Layout& layout, EngineOptions options)
    : impl_(std::make_unique<Impl>(chain, layout, options)) {}
Engine::~Engine() = default;

ExactSum Engine::forward_backward(std::span<const Stream> micro, int64_t trained_tokens) {
  return impl_->forward_backward(micro, trained_tokens);
}
void Engine::finish_gradients() { impl_->finish_gradients(); }
std::span<Slot> Engine::slots() { return impl_->slots(); }
void Engine::publish() { impl_->publish(); }
LossSums Engine::evaluate(std::span<const Stream> streams) { return impl_->evaluate(streams); }
void Engine::with_whole_parameters(const std::function<void(const WholeParameter&)>& body) {
  impl_->with_whole_parameters(body);
}
void Engine::start_trace(const std::filesystem::path& folder, int64_t first_update) {
  impl_->start_trace(folder, first_update);
}
std::string Engine::stop_trace() { return impl_->stop_trace(); }
TraceFile* Engine::trace() { return impl_->trace(); }
OffloadTraffic Engine::offload_traffic() const { return impl_->offload_traffic(); }
const comm::Group& Engine::group() const { return impl_->layout().world(); }
const Layout& Engine::layout() const { return impl_->layout(); }

}  // namespace duoka::parallel
