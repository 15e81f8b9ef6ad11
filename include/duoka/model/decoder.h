// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/layer.h"
#include "duoka/core/layer_range.h"
#include "duoka/core/log.h"
#include "duoka/model/block.h"
#include "duoka/model/config.h"
#include "duoka/model/context_axis.h"
#include "duoka/model/embedding.h"
#include "duoka/model/head.h"
#include "duoka/model/parameter_source.h"
#include "duoka/model/tensor_axis.h"

namespace duoka::model {

struct LoadOptions {
  at::ScalarType dtype = at::kFloat;  ///< What the layers compute in: f32, f64, bf16 or f16.
  at::Device device = at::kCPU;
  Log log = Log();  ///< Progress and the config's warnings.
  /// Whose part of the matrices this rank holds.
  std::shared_ptr<const TensorAxis> tensor_axis = solo_tensor_axis();
  /// Who shares the rows of each stream; see check_context_parallel().
  std::shared_ptr<const ContextAxis> context_axis = solo_context_axis();
  /// The layers this rank holds, ascending; see Decoder. Empty: all.
  std::vector<LayerRange> layers = {};
  /// Called with each parameter when it has been read and the next has not: for who keeps less of it than its
  /// layer (ZeRO-3). The layer's own is made from it afterwards; it shares the tensor.
  std::function<void(Parameter&)> on_parameter = {};
};

/// A decoder: the chain an engine walks, and its parts by name. N tokens, D hidden size, V vocabulary.
///
/// Its layers are numbered: 0 the embedding, 1 … L the blocks, L + 1 the head. It may hold some of them only
/// (pipeline parallelism): the chain is then those here, in order, with an objective where the head is here,
/// and nothing of the others is read. A tied head without the embedding has a copy of the weight, under the
/// embedding's name. What computes with the whole model (logits, losses, generation) throws StateError there,
/// and so does asking for a part that is elsewhere.
///
/// Over a context axis every stream is this rank's part (cut_stream()), and losses and gradients are those of
/// its tokens, to be added up. Over a tensor axis the parameters are this rank's slices, what moves along the
/// chain are its tokens, and every call that computes is collective. Not thread-safe. Pointers to parameters
/// and modules are valid as long as it lives (moving it is fine).
class Decoder final {
 public:
  /// Builds the chain. `source` is asked for every tensor of the layers held here, once each; what it returns
  /// decides dtype, device and what is trainable. layers: ascending; empty: all. Throws ConfigError as
  /// check_tensor_parallel() does, StateError for ranges that are none.
  Decoder(ModelConfig config, const ParameterSource& source,
          std::shared_ptr<const TensorAxis> axis = solo_tensor_axis(),
          const std::shared_ptr<const ContextAxis>& context = solo_context_axis(),
          std::vector<LayerRange> layers = {});
  /// A Hugging Face folder or a .gguf file; nothing is trainable yet. Memory: the slices held here and one
  /// tensor. Throws FormatError when a tensor is missing, of another shape, or not known.
  static Decoder load(const std::filesystem::path& path, const LoadOptions& options = {});
  /// Random weights (see random_weights()).
  static Decoder random(const ModelConfig& config, uint64_t seed, const LoadOptions& options = {});

  const ModelConfig& config() const { return config_; }
  Chain& chain() { return chain_; }
  at::Device device() const;
  at::ScalarType dtype() const;

  /// Whether layer number `layer` is here.
  bool has_layer(int64_t layer) const;
  Embedding& embedding();
  Head& head();
  int64_t num_blocks() const { return config_.num_layers; }  ///< Here or elsewhere.
  Block& block(int64_t index);

  /// The linear modules of the blocks held here, in the order of linear_modules().
  std::vector<Linear*> linears();
  /// One of them by name. Throws StateError when there is none.
  Linear& linear(const std::string& module);
  /// One of them by name; null when the model has it but this rank does not.
  Linear* find_linear(const std::string& module);
  /// A base parameter (not an adapter's) by name; null when there is none here. A tied head's is the
  /// embedding's.
  Parameter* find(const std::string& name);
  /// All parameters in chain order, adapters' included, each once.
  std::vector<Parameter*> parameters() const { return chain_.parameters(); }
  /// Sets is_trainable of every base parameter; adapters are left as they are.
  void set_trainable(const std::function<bool(const std::string& name)>& is_trainable);

  /// Logits of `rows` (indices into the stream's tokens, i64; undefined: all) -> [n, V] in the dtype of the
  /// weights. For evaluation: adapters take part, nothing is kept, no dropout unless the stream is training.
  /// Solo axis only, as what uses a cache (StateError).
  at::Tensor logits(const Stream& stream, const at::Tensor& rows = {});
  /// Sum of the loss over the stream's trained tokens; on the first rank of the tensor axis, 0 on the others.
  double loss_sum(const Stream& stream);

  /// Keys and values of one sequence, a block each.
  using Cache = std::vector<KvCache>;
  /// An empty cache.
  Cache make_cache() const { return Cache(static_cast<size_t>(config_.num_layers)); }
  /// Feeds the next ids of the sequence and returns the logits [V] that follow the last of them.
  at::Tensor logits_cached(const at::Tensor& ids, Cache& cache);

 private:
  at::Tensor activations(const Stream& stream);
  std::unique_ptr<Head> make_head(const ParameterSource& source,
                                  const std::shared_ptr<const TensorAxis>& axis);
  void require_all(const char* what) const;

  ModelConfig config_;
  std::vector<LayerRange> layers_;
  Chain chain_;
  Embedding* embedding_ = nullptr;  // all three owned by chain_; null where they are elsewhere
  std::vector<Block*> blocks_;
  Head* head_ = nullptr;
  std::unordered_map<std::string, Parameter*> base_;
};

}  // namespace duoka::model
