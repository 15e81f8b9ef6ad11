// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/decoder.h"

#include <algorithm>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/model/weights.h"

namespace duoka::model {

namespace {
constexpr const char* embedding_name = "model.embed_tokens.weight";

std::vector<LayerRange> checked(std::vector<LayerRange> layers, int64_t count) {
  if (layers.empty()) return {{0, count}};
  int64_t end = 0;
  for (const LayerRange& range : layers) {
    if (range.first < end || range.last <= range.first || range.last > count)
      throw StateError(text("layers [", range.first, ", ", range.last, ") of a decoder's ", count,
                            "; wanted ascending ranges, none of them empty"));
    end = range.last;
  }
  return layers;
}
}  // namespace

Decoder::Decoder(ModelConfig config, const ParameterSource& source, std::shared_ptr<const TensorAxis> axis,
                 const std::shared_ptr<const ContextAxis>& context, std::vector<LayerRange> layers)
    : config_(std::move(config)), layers_(checked(std::move(layers), config_.num_layers + 2)) {
  check_tensor_parallel(config_, axis->size());
  if (has_layer(0)) {
    auto embedding =
        std::make_unique<Embedding>(source, embedding_name, config_.vocab_size, config_.hidden_size, axis);
    embedding_ = embedding.get();
    chain_.layers.push_back(std::move(embedding));
  }
  const auto rope = std::make_shared<const Rope>(config_.rope);
  blocks_.resize(static_cast<size_t>(config_.num_layers));
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    if (!has_layer(1 + i)) continue;
    auto block =
        std::make_unique<Block>(source, text("model.layers.", i), config_.block(i), rope, axis, context);
    blocks_[static_cast<size_t>(i)] = block.get();
    chain_.layers.push_back(std::move(block));
  }
  if (has_layer(config_.num_layers + 1)) {
    auto head = make_head(source, axis);
    head_ = head.get();
    chain_.objective = std::move(head);
  }
  for (Parameter* parameter : chain_.parameters()) base_.emplace(parameter->name, parameter);
}

std::unique_ptr<Head> Decoder::make_head(const ParameterSource& source,
                                         const std::shared_ptr<const TensorAxis>& axis) {
  constexpr int64_t bytes = Head::default_chunk_bytes;
  const int64_t vocabulary = config_.vocab_size, width = config_.hidden_size;
  RmsNorm norm(source({"model.norm.weight", {width}}), config_.norm_eps);
  if (config_.tie_word_embeddings && embedding_ != nullptr)
    return std::make_unique<Head>(std::move(norm), &embedding_->weight(), bytes, axis);
  const char* name = config_.tie_word_embeddings ? embedding_name : "lm_head.weight";
  Parameter weight = source({name, {vocabulary, width}, axis->slice(0, vocabulary)});
  return std::make_unique<Head>(std::move(norm), std::move(weight), bytes, axis);
}

namespace {
// The config decides, as in transformers; but say so where it makes a difference.
void warn_of_stale_head(const WeightSource& source, const ModelConfig& config, const Log& log) {
  const std::string name = "lm_head.weight";
  if (!config.tie_word_embeddings || !source.has(name)) return;
  const auto embedding = source.read("model.embed_tokens.weight").to(at::kFloat);
  const auto head = source.read(name).to(at::kFloat);
  if (head.sizes() != embedding.sizes() || !head.equal(embedding))
    log.warning(text(source.path(),
                     ": lm_head.weight differs from the embedding but tie_word_embeddings is true; ",
                     "the embedding is used for both"));
}

Decoder decoder_of(ModelConfig config, const WeightSource& source, const LoadOptions& options) {
  Weights weights(source, options.dtype, options.device, options.log);
  const ParameterSource read = weights.parameters();
  const ParameterSource told = [&](const ParameterRequest& request) {
    Parameter parameter = read(request);
    if (options.on_parameter) options.on_parameter(parameter);
    return parameter;
  };
  return Decoder(std::move(config), told, options.tensor_axis, options.context_axis, options.layers);
}
}  // namespace

Decoder Decoder::load(const std::filesystem::path& path, const LoadOptions& options) {
  return within("loading " + path.string(), [&] {
    ModelConfig config = read_config(path);
    for (const auto& warning : config.warnings) options.log.warning(warning);
    check_tensor_parallel(config, options.tensor_axis->size());
    const auto source = open_weights(path, config);
    check_tensors(*source, config);
    warn_of_stale_head(*source, config, options.log);
    return decoder_of(std::move(config), *source, options);
  });
}

Decoder Decoder::random(const ModelConfig& config, uint64_t seed, const LoadOptions& options) {
  return decoder_of(config, *random_weights(config, seed), options);
}

at::Device Decoder::device() const { return base_.begin()->second->value.device(); }

at::ScalarType Decoder::dtype() const { return base_.begin()->second->value.scalar_type(); }

bool Decoder::has_layer(int64_t layer) const {
  return std::ranges::any_of(layers_, [&](const LayerRange& range) { return range.contains(layer); });
}

namespace {
template <class Part>
Part& here(Part* part, const char* what) {
  if (part == nullptr) throw StateError(text("this rank does not hold ", what, " of the model"));
  return *part;
}
}  // namespace

Embedding& Decoder::embedding() { return here(embedding_, "the embedding"); }

Head& Decoder::head() { return here(head_, "the head"); }

Block& Decoder::block(int64_t index) { return here(blocks_.at(static_cast<size_t>(index)), "that block"); }

void Decoder::require_all(const char* what) const {
  for (int64_t layer = 0; layer < config_.num_layers + 2; ++layer)
    if (!has_layer(layer))
      throw StateError(text(what, " with a model of which this rank holds some layers only"));
}

std::vector<Linear*> Decoder::linears() {
  std::vector<Linear*> all;
  for (Block* block : blocks_)
    if (block != nullptr)
      for (Linear* linear : block->linears()) all.push_back(linear);
  return all;
}

Linear& Decoder::linear(const std::string& module) {
  if (Linear* found = find_linear(module)) return *found;
  throw StateError("this rank does not hold the linear module " + module);
}

Linear* Decoder::find_linear(const std::string& module) {
  for (Linear* linear : linears())
    if (linear->module() == module) return linear;
  if (std::ranges::any_of(linear_modules(config_), [&](const auto& known) { return known.name == module; }))
    return nullptr;
  throw StateError("the model has no linear module " + module);
}

Parameter* Decoder::find(const std::string& name) {
  const bool is_tied_head = config_.tie_word_embeddings && name == "lm_head.weight";
  const auto found = base_.find(is_tied_head ? embedding_name : name);
  return found == base_.end() ? nullptr : found->second;
}

void Decoder::set_trainable(const std::function<bool(const std::string&)>& is_trainable) {
  for (auto& [name, parameter] : base_) parameter->is_trainable = is_trainable(name);
}

at::Tensor Decoder::activations(const Stream& stream) {
  require_all("logits or losses");
  Saved nothing(/*is_recording=*/false);
  at::Tensor x;
  for (const auto& layer : chain_.layers) x = layer->forward(x, stream, nothing);
  return x;
}

at::Tensor Decoder::logits(const Stream& stream, const at::Tensor& rows) {
  return head_->logits(activations(stream), rows);
}

double Decoder::loss_sum(const Stream& stream) { return head_->loss_sum(activations(stream), stream); }

at::Tensor Decoder::logits_cached(const at::Tensor& ids, Cache& cache) {
  require_all("generation");
  if (cache.size() != blocks_.size()) throw StateError("a cache of another model");
  at::Tensor x = embedding_->rows(ids.to(device()));
  for (size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i]->forward_cached(x, cache[i]);
  return head_->logits(x.narrow(0, x.size(0) - 1, 1)).squeeze(0);
}

}  // namespace duoka::model
