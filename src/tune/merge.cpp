// SPDX-License-Identifier: Apache-2.0
#include "duoka/tune/merge.h"

#include <algorithm>

#include "duoka/core/error.h"
#include "duoka/model/export.h"
#include "duoka/model/weights.h"
#include "duoka/tune/peft_files.h"
#include "tune/module_names.h"

namespace duoka::tune {

namespace {
bool has_quantized(const model::WeightSource& source) {
  return std::ranges::any_of(source.names(), [&](const auto& name) { return source.is_quantized(name); });
}

// base + scale * B A, in f32 (f64 for an f64 base); the writer rounds it to the file's dtype, once.
at::Tensor merged(const at::Tensor& base, const PeftAdapter::Module& module) {
  const auto wide = base.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return base.to(wide).add(module.b.to(wide).mm(module.a.to(wide)), module.scale());
}
}  // namespace

void merge_adapter(const std::filesystem::path& base, const std::filesystem::path& adapter_folder,
                   const std::filesystem::path& out, const MergeOptions& options) {
  const model::ModelConfig config = model::read_config(base);
  for (const auto& warning : config.warnings) options.log.warning(warning);
  const PeftAdapter adapter = read_peft_adapter(adapter_folder, config);
  if (const auto warning = other_base_warning(adapter, base); !warning.empty()) options.log.warning(warning);
  const auto source = model::open_weights(base, config);
  model::check_tensors(*source, config);

  model::ExportOptions export_options{options.dtype, options.max_shard_bytes, options.log};
  if (!options.dtype && has_quantized(*source)) export_options.dtype = at::kHalf;
  const auto dtype = [&](const std::string& name) { return source->dtype(name); };
  const auto tensor = [&](const std::string& name) {
    if (const auto saved = adapter.saved_weights.find(name); saved != adapter.saved_weights.end())
      return saved->second;
    const at::Tensor stored = source->read(name);
    const auto module = std::ranges::find(adapter.modules, module_of(name), &PeftAdapter::Module::name);
    const bool is_adapted = module != adapter.modules.end() && name.ends_with(".weight");
    return is_adapted ? merged(stored, *module) : stored;
  };
  within("merging into " + out.string(), [&] {
    model::export_folder(out, config, {dtype, tensor}, export_options);
  });
}

}  // namespace duoka::tune
