// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "duoka/model/weights.h"

namespace duoka::model {

/// The tensors of a GGUF file as open_weights() promises them.
std::unique_ptr<WeightSource> open_gguf_weights(const std::filesystem::path& path, const ModelConfig& config);

/// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; a name with no counterpart stays.
std::string hugging_face_name(const std::string& gguf_name);

/// Undoes GGUF's order of llama's q and k rows. There, elements 2i and 2i+1 of a head turn together; in
/// Hugging Face's layout elements i and i + d/2 do. x [heads * d, ...] -> the same shape.
at::Tensor undo_paired_rows(const at::Tensor& x, int64_t num_heads);

}  // namespace duoka::model
