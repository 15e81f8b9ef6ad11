// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/decoder.h"

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/model/weights.h"

namespace duoka::model {

Decoder::Decoder(ModelConfig config, const ParameterSource& source, std::shared_ptr<const TensorAxis> axis,
                 const std::shared_ptr<const ContextAxis>& context)
    : config_(std::move(config)) {
  check_tensor_parallel(config_, axis->size());
  const int64_t width = config_.hidden_size, vocabulary = config_.vocab_size;
  auto embedding = std::make_unique<Embedding>(source, "model.embed_tokens.weight", vocabulary, width, axis);
  embedding_ = embedding.get();
  chain_.layers.push_back(std::move(embedding));
  const auto rope = std::make_shared<const Rope>(config_.rope);
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    auto block =
        std::make_unique<Block>(source, text("model.layers.", i), config_.block(i), rope, axis, context);
    blocks_.push_back(block.get());
    chain_.layers.push_back(std::move(block));
  }
  auto head = make_head(RmsNorm(source({"model.norm.weight", {width}}), config_.norm_eps), source, axis);
  head_ = head.get();
  chain_.objective = std::move(head);
  for (Parameter* parameter : chain_.parameters()) base_.emplace(parameter->name, parameter);
}

std::unique_ptr<Head> Decoder::make_head(RmsNorm norm, const ParameterSource& source,
                                         const std::shared_ptr<const TensorAxis>& axis) {
  constexpr int64_t bytes = Head::default_chunk_bytes;
  if (config_.tie_word_embeddings)
    return std::make_unique<Head>(std::move(norm), &embedding_->weight(), bytes, axis);
  const int64_t vocabulary = config_.vocab_size;
  Parameter weight =
      source({"lm_head.weight", {vocabulary, config_.hidden_size}, axis->slice(0, vocabulary)});
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
  return Decoder(std::move(config), told, options.tensor_axis, options.context_axis);
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

at::Device Decoder::device() const { return embedding_->weight().value.device(); }

at::ScalarType Decoder::dtype() const { return embedding_->weight().value.scalar_type(); }

std::vector<Linear*> Decoder::linears() {
  std::vector<Linear*> all;
  for (Block* block : blocks_)
    for (Linear* linear : block->linears()) all.push_back(linear);
  return all;
}

Linear& Decoder::linear(const std::string& module) {
  for (Linear* linear : linears())
    if (linear->module() == module) return *linear;
  throw StateError("the model has no linear module " + module);
}

Parameter* Decoder::find(const std::string& name) {
  const bool is_tied_head = config_.tie_word_embeddings && name == "lm_head.weight";
  const auto found = base_.find(is_tied_head ? "model.embed_tokens.weight" : name);
  return found == base_.end() ? nullptr : found->second;
}

void Decoder::set_trainable(const std::function<bool(const std::string&)>& is_trainable) {
  for (auto& [name, parameter] : base_) parameter->is_trainable = is_trainable(name);
}

at::Tensor Decoder::activations(const Stream& stream) {
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
  if (cache.size() != blocks_.size()) throw StateError("a cache of another model");
  at::Tensor x = embedding_->rows(ids.to(device()));
  for (size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i]->forward_cached(x, cache[i]);
  return head_->logits(x.narrow(0, x.size(0) - 1, 1)).squeeze(0);
}

}  // namespace duoka::model
