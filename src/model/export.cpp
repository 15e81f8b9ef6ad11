// SPDX-License-Identifier: Apache-2.0
#include "duoka/model/export.h"

#include <map>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/io/model_folder.h"
#include "duoka/model/decoder.h"
#include "duoka/model/weights.h"

namespace duoka::model {

namespace {
std::vector<io::TensorSpec> specs_of(const ModelConfig& config, const ExportSource& source,
                                     const ExportOptions& options) {
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, shape] : tensors_of(config))
    specs.push_back({name, file_dtype(options.dtype ? *options.dtype : source.dtype(name)), shape});
  return specs;
}

io::DType prevailing_dtype(const std::vector<io::TensorSpec>& specs) {
  std::map<io::DType, int64_t> bytes;
  for (const auto& spec : specs) bytes[spec.dtype] += spec.num_bytes();
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return most->first;
}

void write_tensor(io::WeightsWriter& writer, const io::TensorSpec& spec, const at::Tensor& tensor) {
  if (tensor.sizes() != at::IntArrayRef(spec.shape))
    throw StateError(text("export of ", spec.name, ": its shape is not the config's"));
  const at::Tensor stored = tensor.detach().to(at::kCPU, scalar_type(spec.dtype, spec.name)).contiguous();
  writer.write(spec.name, {static_cast<const std::byte*>(stored.const_data_ptr()), stored.nbytes()});
}
}  // namespace

void export_folder(const std::filesystem::path& folder, ModelConfig config, const ExportSource& source,
                   const ExportOptions& options) {
  const auto specs = specs_of(config, source, options);
  config.dtype = prevailing_dtype(specs);
  int64_t num_bytes = 0;
  for (const auto& spec : specs) num_bytes += spec.num_bytes();
  io::WeightsWriter writer(folder, specs, options.max_shard_bytes);
  Progress progress(options.log, "writing weights", num_bytes, "byte");
  for (const auto& spec : writer.tensors()) {
    write_tensor(writer, spec, source.tensor(spec.name));
    progress.advance(spec.num_bytes());
  }
  writer.commit();
  write_file_atomically(folder / "config.json", config_text(config));
  write_file_atomically(folder / "generation_config.json", generation_config_text(config));
}

void export_folder(const std::filesystem::path& folder, Decoder& decoder, const ExportOptions& options) {
  const auto value = [&](const std::string& name) { return decoder.find(name)->value; };
  export_folder(folder, decoder.config(),
                {[&](const auto& name) { return value(name).scalar_type(); }, value}, options);
}

}  // namespace duoka::model
