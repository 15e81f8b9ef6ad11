// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/weights.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include <ATen/ops/from_blob.h>
#include <c10/util/accumulate.h>
#include <sys/mman.h>
#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/host_allocator.h"
#include "duoka/core/text.h"
#include "duoka/io/gguf.h"
#include "duoka/io/model_folder.h"
#include "model/weights_gguf.h"

namespace duoka::model {

at::ScalarType scalar_type(io::DType dtype, const std::string& where) {
  switch (dtype) {
    case io::DType::f64:
      return at::kDouble;
    case io::DType::f32:
      return at::kFloat;
    case io::DType::f16:
      return at::kHalf;
    case io::DType::bf16:
      return at::kBFloat16;
    default:
      throw FormatError(text(where, " is stored as ", io::safetensors_name(dtype),
                             "; wanted F32, BF16, F16 or F64 weights"));
  }
}

io::DType file_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return io::DType::f64;
    case at::kFloat:
      return io::DType::f32;
    case at::kHalf:
      return io::DType::f16;
    case at::kBFloat16:
      return io::DType::bf16;
    default:
      throw StateError(text("no file holds tensors of dtype ", c10::toString(dtype)));
  }
}

at::Tensor WeightSource::read_slice(const std::string& name, const Slice& slice) const {
  return cut(read(name), slice);
}

namespace {
class FolderWeights final : public WeightSource {
 public:
  explicit FolderWeights(io::ModelFolder folder) : folder_(std::move(folder)), names_(folder_.names()) {}

  std::string path() const override { return folder_.path().string(); }
  std::vector<std::string> names() const override { return names_; }
  // Not find(): an index that promises a tensor nobody wants (a tied head) is no error.
  bool has(const std::string& name) const override { return std::ranges::binary_search(names_, name); }
  std::vector<int64_t> shape(const std::string& name) const override { return view(name).shape; }
  at::ScalarType dtype(const std::string& name) const override {
    return scalar_type(view(name).dtype, path() + ": " + name);
  }

  at::Tensor read(const std::string& name) const override { return read_as(name, dtype(name)); }

  at::Tensor read_as(const std::string& name, at::ScalarType wanted) const override {
    const io::TensorView& stored = view(name);
    at::Tensor tensor = at::empty(stored.shape, wanted);
    if (tensor.numel() > 0) tensor.copy_(mapped(stored, dtype(name)));
    drop_pages(stored.bytes);
    return tensor;
  }

  at::Tensor read_slice(const std::string& name, const Slice& slice) const override {
    const io::TensorView& stored = view(name);
    const auto dim = static_cast<size_t>(slice.dim);
    auto shape = stored.shape;
    shape[dim] = slice.count;
    at::Tensor tensor = at::empty(shape, dtype(name));
    if (tensor.numel() == 0) return tensor;
    // The slice is a run of bytes at the same place of every row of the dims before it.
    const int64_t num_runs = c10::multiply_integers(shape.begin(), shape.begin() + slice.dim);
    const size_t run = tensor.nbytes() / static_cast<size_t>(num_runs),
                 index = run / static_cast<size_t>(slice.count),  // bytes of one index
        row = index * static_cast<size_t>(stored.shape[dim]);
    const std::byte* from = stored.bytes.data() + static_cast<size_t>(slice.begin) * index;
    auto* to = static_cast<std::byte*>(tensor.data_ptr());
    for (int64_t i = 0; i < num_runs; ++i, from += row, to += run) std::memcpy(to, from, run);
    drop_pages(stored.bytes);
    return tensor;
  }

 private:
  /// The numbers where the file is mapped, if they lie as the processor wants them. Not to be written to.
  static at::Tensor mapped(const io::TensorView& stored, at::ScalarType dtype) {
    if (reinterpret_cast<uintptr_t>(stored.bytes.data()) % c10::elementSize(dtype) != 0) {
      at::Tensor copy = at::empty(stored.shape, dtype);
      std::memcpy(copy.data_ptr(), stored.bytes.data(), stored.bytes.size());
      return copy;
    }
    return at::from_blob(const_cast<std::byte*>(stored.bytes.data()), stored.shape, at::dtype(dtype));
  }

  /// Gives the memory of pages back that were read from the file: they would count as this process's own
  /// until the last tensor is read. They stay in the system's cache.
  static void drop_pages(std::span<const std::byte> bytes) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
    const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }

  const io::TensorView& view(const std::string& name) const {
    if (const io::TensorView* found = folder_.find(name)) return *found;
    throw FormatError(text(path(), ": no tensor ", name));
  }

  io::ModelFolder folder_;
  std::vector<std::string> names_;
};

std::string shape_text(at::IntArrayRef shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + join(sizes) + "]";
}

// Tables that exports of years ago carry beside the weights; they follow from the config.
bool is_known_buffer(const std::string& name) { return name.ends_with(".rotary_emb.inv_freq"); }
}  // namespace

std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path, const ModelConfig& config) {
  if (is_gguf(path)) return open_gguf_weights(path, config);
  return std::make_unique<FolderWeights>(io::ModelFolder::open(path));
}

namespace {
void check_tensor(const WeightSource& source, const std::string& name, const std::vector<int64_t>& shape) {
  if (!source.has(name))
    throw FormatError(
        text(source.path(), ": no tensor ", name, "; the config wants one of shape ", shape_text(shape)));
  const auto found = source.shape(name);
  if (found != shape)
    throw FormatError(text(source.path(), ": ", name, " has shape ", shape_text(found), "; the config wants ",
                           shape_text(shape)));
}
}  // namespace

void check_tensors(const WeightSource& source, const ModelConfig& config) {
  std::unordered_set<std::string> known;
  for (const auto& [name, shape] : tensors_of(config)) {
    check_tensor(source, name, shape);
    known.insert(name);
  }
  if (config.tie_word_embeddings) known.insert("lm_head.weight");
  std::vector<std::string> left;
  for (const auto& name : source.names())
    if (!known.contains(name) && !is_known_buffer(name)) left.push_back(name);
  if (left.empty()) return;
  const size_t count = left.size();
  if (count > 3) left.resize(3);
  throw FormatError(
      text(source.path(), ": ", counted(static_cast<int64_t>(count), "tensor"), count == 1 ? " has" : " have",
           " no place in the model that its config describes: ", join(left), count > 3 ? ", …" : ""));
}

Weights::Weights(const WeightSource& source, at::ScalarType dtype, at::Device device, const Log& log)
    : source_(source), dtype_(dtype), device_(device) {
  progress_ = std::make_unique<Progress>(log, "loading " + source.path(),
                                         static_cast<int64_t>(source.names().size()), "tensor");
}

Weights::~Weights() = default;

namespace {
void check_slice(const ParameterRequest& request, const Slice& slice) {
  const auto& [dim, begin, count] = slice;
  if (dim < 0 || dim >= static_cast<int64_t>(request.shape.size()) || begin < 0 || count < 0 ||
      begin > request.shape[static_cast<size_t>(dim)] - count)
    throw StateError(text("slice of ", request.name, ": [", begin, ", ", begin + count, ") of dim ", dim,
                          " is not in ", shape_text(request.shape)));
}
}  // namespace

at::Tensor Weights::take(const ParameterRequest& request) {
  check_tensor(source_, request.name, request.shape);
  if (request.slice) check_slice(request, *request.slice);
  progress_->advance(1);
  const MemoryScope scope(MemoryClass::parameters);
  const at::Tensor read = request.slice ? source_.read_slice(request.name, *request.slice).to(dtype_)
                                        : source_.read_as(request.name, dtype_);
  return read.to(device_);
}

ParameterSource Weights::parameters() {
  return [this](const ParameterRequest& request) {
    return request.parameter(take(request), /*is_trainable=*/false);
  };
}

}  // namespace duoka::model
