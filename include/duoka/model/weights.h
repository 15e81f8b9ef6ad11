// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/core/log.h"
#include "duoka/model/config.h"
#include "duoka/model/parameter_source.h"

namespace duoka::model {

/// Where a model's tensors come from, by their Hugging Face names. Not thread-safe.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// Path of the folder or file, for messages.
  virtual std::string path() const = 0;
  /// Every tensor there is, Hugging Face's name, sorted.
  virtual std::vector<std::string> names() const = 0;
  virtual bool has(const std::string& name) const = 0;
  virtual std::vector<int64_t> shape(const std::string& name) const = 0;
  /// Of what read() returns.
  virtual at::ScalarType dtype(const std::string& name) const = 0;
  /// Whether read() decodes blocks of a quantisation.
  virtual bool is_quantized(const std::string&) const { return false; }
  /// The whole tensor on the CPU, its own memory, in the dtype stored (f32 where the store is quantised).
  /// Throws FormatError naming file and tensor when it is not there or of a dtype no weights have.
  virtual at::Tensor read(const std::string& name) const = 0;
  /// read() in `dtype`. Where the store allows it, the numbers are converted as they are read.
  virtual at::Tensor read_as(const std::string& name, at::ScalarType dtype) const {
    return read(name).to(dtype);
  }
  /// A part of what read() returns, in its own memory. Where the store allows it, only the bytes of the part
  /// are touched; else read() and cut().
  virtual at::Tensor read_slice(const std::string& name, const Slice& slice) const;
};

/// Tensors of a Hugging Face folder (one or several safetensors), or of a GGUF file: its names are mapped
/// to Hugging Face's, quantised blocks become f32 (in parallel), and the row order of llama's q and k is
/// undone. Throws FormatError when the files are damaged.
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path, const ModelConfig& config);

/// Random weights of `config` for tests and for training from nothing: matrices N(0, initializer_range),
/// norms 1, biases 0. A tensor's numbers depend on `seed` and its name only, a slice's too.
std::unique_ptr<WeightSource> random_weights(const ModelConfig& config, uint64_t seed);

/// The torch name of a file's dtype. Throws FormatError for one that weights cannot have (integers, f8).
at::ScalarType scalar_type(io::DType dtype, const std::string& where);
/// The reverse, for f64, f32, f16 and bf16; StateError for others.
io::DType file_dtype(at::ScalarType dtype);

/// Checks that a source holds the model `config` describes: each of its tensors in the right shape, and
/// nothing else, so that a model is never half loaded or half understood. A head stored beside a tied
/// embedding and the rotary tables of old exports pass. Throws FormatError with path, tensor, wanted and
/// found.
void check_tensors(const WeightSource& source, const ModelConfig& config);

/// Hands out the tensors of a source, checked, cut and converted. Memory: what was handed out, and one
/// tensor.
class Weights {
 public:
  /// `dtype` and `device` of what take() returns. Loading for more than a second shows progress on `log`.
  Weights(const WeightSource& source, at::ScalarType dtype, at::Device device, const Log& log = Log());
  ~Weights();

  /// The tensor, or its slice, in memory of its own. Throws FormatError with path, tensor, wanted and found
  /// when it is missing or has another shape (nothing is ever made up), StateError when the slice is not in
  /// the shape.
  at::Tensor take(const ParameterRequest& request);
  /// take() as a layer's constructor wants it; nothing is trainable. Refers to this object.
  ParameterSource parameters();

 private:
  const WeightSource& source_;
  at::ScalarType dtype_;
  at::Device device_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace duoka::model
