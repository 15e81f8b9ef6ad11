// SPDX-License-Identifier: Apache-2.0
#include "model/weights_gguf.h"

#include <array>
#include <cstring>
#include <map>

#include <ATen/Parallel.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/gguf.h"
#include "duoka/model/families.h"

namespace duoka::model {

namespace {
struct NamePair {
  std::string_view gguf, hugging_face;
};
constexpr std::array outer_names = {NamePair{"token_embd", "model.embed_tokens"},
                                    NamePair{"output_norm", "model.norm"}, NamePair{"output", "lm_head"}};
constexpr std::array block_names = {
    NamePair{"attn_norm", "input_layernorm"},    NamePair{"ffn_norm", "post_attention_layernorm"},
    NamePair{"attn_q", "self_attn.q_proj"},      NamePair{"attn_k", "self_attn.k_proj"},
    NamePair{"attn_v", "self_attn.v_proj"},      NamePair{"attn_output", "self_attn.o_proj"},
    NamePair{"attn_q_norm", "self_attn.q_norm"}, NamePair{"attn_k_norm", "self_attn.k_norm"},
    NamePair{"ffn_gate", "mlp.gate_proj"},       NamePair{"ffn_up", "mlp.up_proj"},
    NamePair{"ffn_down", "mlp.down_proj"}};

template <size_t count>
std::string_view counterpart(const std::array<NamePair, count>& pairs, std::string_view gguf) {
  for (const auto& pair : pairs)
    if (pair.gguf == gguf) return pair.hugging_face;
  return {};
}

at::ScalarType stored_type(io::GgmlType type) {
  switch (type) {
    case io::GgmlType::f16:
      return at::kHalf;
    case io::GgmlType::bf16:
      return at::kBFloat16;
    default:
      return at::kFloat;
  }
}

class GgufWeights final : public WeightSource {
 public:
  GgufWeights(io::GgufFile file, const ModelConfig& config)
      : file_(std::move(file)),
        num_heads_(config.num_heads),
        num_kv_heads_(config.num_kv_heads),
        pairs_rows_(family_of_gguf(file_.require_string("general.architecture"), file_.path().string())
                        .gguf_pairs_rows) {
    for (const auto& tensor : file_.tensors())
      if (tensor.name != "rope_freqs.weight")  // read_config() made rope scaling of it
        tensors_.emplace(hugging_face_name(tensor.name), &tensor);
  }

  std::string path() const override { return file_.path().string(); }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }
  bool has(const std::string& name) const override { return tensors_.contains(name); }
  std::vector<int64_t> shape(const std::string& name) const override { return stored(name).shape; }
  at::ScalarType dtype(const std::string& name) const override { return stored_type(stored(name).type); }
  bool is_quantized(const std::string& name) const override {
    const auto type = stored(name).type;
    return type != io::GgmlType::f32 && type != io::GgmlType::f16 && type != io::GgmlType::bf16;
  }

  at::Tensor read(const std::string& name) const override {
    const io::GgufTensor& tensor = stored(name);
    at::Tensor values = at::empty(tensor.shape, stored_type(tensor.type));
    if (is_quantized(name))
      dequantize_in_parallel(tensor, values);
    else
      std::memcpy(values.data_ptr(), tensor.bytes.data(), tensor.bytes.size());
    return pairs_rows_ ? restore_rows(name, values) : values;
  }

 private:
  const io::GgufTensor& stored(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) throw FormatError(text(path(), ": no tensor ", name));
    return *found->second;
  }

  static void dequantize_in_parallel(const io::GgufTensor& tensor, at::Tensor& values) {
    const int64_t length = tensor.row_length();
    const auto out = std::span(values.mutable_data_ptr<float>(), static_cast<size_t>(values.numel()));
    constexpr int64_t grain = 1 << 16;  // elements a thread gets at least
    at::parallel_for(
        0, tensor.num_rows(), std::max<int64_t>(1, grain / length), [&](int64_t first, int64_t last) {
          io::dequantize_rows(
              tensor, first, last - first,
              out.subspan(static_cast<size_t>(first * length), static_cast<size_t>((last - first) * length)));
        });
  }

  at::Tensor restore_rows(const std::string& name, const at::Tensor& values) const {
    if (name.find(".q_proj.") != std::string::npos) return undo_paired_rows(values, num_heads_);
    if (name.find(".k_proj.") != std::string::npos) return undo_paired_rows(values, num_kv_heads_);
    return values;
  }

  io::GgufFile file_;
  std::map<std::string, const io::GgufTensor*> tensors_;
  int64_t num_heads_;
  int64_t num_kv_heads_;
  bool pairs_rows_;
};
}  // namespace

std::string hugging_face_name(const std::string& gguf_name) {
  const size_t dot = gguf_name.rfind('.');
  if (dot == std::string::npos) return gguf_name;
  const std::string_view stem = std::string_view(gguf_name).substr(0, dot);
  const std::string ending = gguf_name.substr(dot);
  if (!stem.starts_with("blk.")) {
    const auto name = counterpart(outer_names, stem);
    return name.empty() ? gguf_name : std::string(name) + ending;
  }
  const size_t after_number = stem.find('.', 4);
  if (after_number == std::string_view::npos) return gguf_name;
  const auto name = counterpart(block_names, stem.substr(after_number + 1));
  return name.empty() ? gguf_name
                      : text("model.layers.", stem.substr(4, after_number - 4), ".", name, ending);
}

at::Tensor undo_paired_rows(const at::Tensor& x, int64_t num_heads) {
  // A damaged shape is left for the caller's check against the config.
  if (x.dim() < 1 || x.size(0) % (2 * num_heads) != 0) return x;
  const int64_t half = x.size(0) / num_heads / 2;
  auto grouped = x.reshape({num_heads, half, 2, -1});
  return grouped.transpose(1, 2).reshape(x.sizes());
}

std::unique_ptr<WeightSource> open_gguf_weights(const std::filesystem::path& path,
                                                const ModelConfig& config) {
  return std::make_unique<GgufWeights>(io::GgufFile::open(path), config);
}

}  // namespace duoka::model
