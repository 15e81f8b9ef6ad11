// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/io/safetensors.h"
#include "duoka/model/weights.h"
#include "duoka/tune/peft_files.h"
#include "tune/module_names.h"
#include "tune/peft_config.h"

namespace duoka::tune {

double PeftAdapter::Module::scale() const {
  const auto r = static_cast<double>(lora.rank);
  return lora.alpha / (lora.use_rslora ? std::sqrt(r) : r);
}

namespace {
constexpr std::string_view prefix = "base_model.model.";

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + join(sizes) + "]";
}

// What a tensor of the file is, by its name.
struct Role {
  enum class Kind { lora_a, lora_b, saved, original };
  Kind kind;
  std::string module;     // of lora_a and lora_b
  std::string parameter;  // of saved
};

bool cut_ending(std::string& name, std::string_view ending) {
  if (!name.ends_with(ending)) return false;
  name.erase(name.size() - ending.size());
  return true;
}

// Whole modules go by up to three names: peft saves the wrapper's entry, the wrapped module's ("weight"
// alone) and, where it saves embeddings by its own choice, the base's old one (original_module), which is not
// the adapter's.
Role role_of(std::string name, const std::string& origin) {
  if (!name.starts_with(prefix)) throw FormatError(text(origin, ": tensor ", name, " is not one of peft's"));
  name.erase(0, prefix.size());
  std::string rest = name;
  for (const char* ending : {".lora_A.weight", ".lora_A.default.weight"})
    if (cut_ending(rest, ending)) return {Role::Kind::lora_a, rest, ""};
  for (const char* ending : {".lora_B.weight", ".lora_B.default.weight"})
    if (cut_ending(rest, ending)) return {Role::Kind::lora_b, rest, ""};
  if (name.find(".original_module.") != std::string::npos) return {Role::Kind::original, "", ""};
  for (std::string_view part : {".modules_to_save.default", ".modules_to_save"})
    if (const size_t at = rest.find(part); at != std::string::npos) {
      rest.erase(at, part.size());
      break;
    }
  return {Role::Kind::saved, "", rest};
}

at::Tensor read_tensor(const io::TensorView& view, const std::string& origin) {
  at::Tensor tensor = at::empty(view.shape, model::scalar_type(view.dtype, origin + ": " + view.name));
  std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
  return tensor;
}

class Reader {
 public:
  Reader(const std::filesystem::path& folder, const model::ModelConfig& config)
      : config_(config), origin_((folder / "adapter_model.safetensors").string()) {
    if (!std::filesystem::exists(folder / "adapter_config.json"))
      throw FormatError(
          text(folder.string(), looked_in(folder),
               ": no adapter_config.json there; wanted a folder that `duoka train` or peft wrote"));
    adapter_.config = read_peft_config(folder / "adapter_config.json");
    if (!std::filesystem::exists(origin_) && std::filesystem::exists(folder / "adapter_model.bin"))
      throw FormatError(text(folder.string(),
                             ": adapter_model.bin is a Python pickle; save the adapter again with ",
                             "safe_serialization=True"));
    const auto file = io::SafetensorsFile::open(origin_);
    for (const auto& view : file.tensors()) sort_in(view);
  }

  PeftAdapter finish() {
    collect_modules();
    collect_saved();
    fill_selection();
    return std::move(adapter_);
  }

 private:
  void sort_in(const io::TensorView& view) {
    const Role role = role_of(view.name, origin_);
    switch (role.kind) {
      case Role::Kind::lora_a:
        a_[role.module] = read_tensor(view, origin_);
        break;
      case Role::Kind::lora_b:
        b_[role.module] = read_tensor(view, origin_);
        break;
      case Role::Kind::saved:
        saved_[role.parameter] = read_tensor(view, origin_);
        break;
      case Role::Kind::original:
        break;
    }
  }

  at::Tensor take(std::unordered_map<std::string, at::Tensor>& from, const std::string& module,
                  const char* part, const std::vector<int64_t>& shape) {
    const auto found = from.find(module);
    if (found == from.end())
      throw FormatError(text(origin_, ": no tensor ", prefix, module, ".", part,
                             ".weight, though target_modules of ", "adapter_config.json asks for it"));
    at::Tensor tensor = found->second;
    from.erase(found);
    if (tensor.sizes() != at::IntArrayRef(shape))
      throw FormatError(text(origin_, ": ", module, ".", part, " has shape ",
                             shape_text(tensor.sizes().vec()), "; rank and base model want ",
                             shape_text(shape)));
    return tensor;
  }

  void collect_modules() {
    const auto targeted = targeted_modules(adapter_.config, config_);
    for (const auto& [name, shape] : model::linear_modules(config_)) {
      const bool is_targeted = std::ranges::find(targeted, name) != targeted.end();
      if (!is_targeted && !a_.contains(name) && !b_.contains(name)) continue;
      const LoraConfig lora = lora_of(adapter_.config, name);
      const auto a = take(a_, name, "lora_A", {lora.rank, shape[1]});
      const auto b = take(b_, name, "lora_B", {shape[0], lora.rank});
      adapter_.modules.push_back({name, lora, a, b});
    }
    for (const auto* left : {&a_, &b_})
      if (!left->empty())
        throw FormatError(text(origin_, ": an adapter for ", left->begin()->first,
                               ", which is no linear module of this base model's blocks"));
  }

  void collect_saved() {
    for (const auto& [name, shape] : model::tensors_of(config_)) {
      const auto found = saved_.find(name);
      if (found == saved_.end()) continue;
      if (found->second.sizes() != at::IntArrayRef(shape))
        throw FormatError(text(origin_, ": ", name, " is saved whole with shape ",
                               shape_text(found->second.sizes().vec()), ", the base model's has ",
                               shape_text(shape),
                               "; resize the base model to the adapter's vocabulary first"));
      adapter_.saved_weights.emplace(name, found->second);
      saved_.erase(found);
    }
    if (config_.tie_word_embeddings) drop_tied_head();
    if (!saved_.empty())
      throw FormatError(
          text(origin_, ": tensor ", saved_.begin()->first, " has no place in this base model"));
    for (const auto& target : adapter_.config.modules_to_save) check_saved(target);
  }

  // One matrix is both here, so an adapter that made two of it cannot be followed.
  void drop_tied_head() {
    const auto head = saved_.find("lm_head.weight");
    const auto embedding = adapter_.saved_weights.find("model.embed_tokens.weight");
    const bool has_head = head != saved_.end(), has_embedding = embedding != adapter_.saved_weights.end();
    const bool is_one = has_head ? has_embedding && head->second.equal(embedding->second)
                                 : !has_embedding || adapter_.config.ensure_weight_tying;
    if (!is_one)
      throw FormatError(text(origin_,
                             ": the base model's head and embedding are one matrix, the adapter trained ",
                             "them apart; train it with ensure_weight_tying, or untie the base model first"));
    if (has_head) saved_.erase(head);
  }

  void check_saved(const std::string& target) const {
    const bool is_head_of_tied = config_.tie_word_embeddings && matches_suffix("lm_head", target);
    if (!is_head_of_tied && std::ranges::none_of(adapter_.saved_weights, [&](const auto& entry) {
          return matches_suffix(module_of(entry.first), target);
        }))
      throw FormatError(text(origin_, ": modules_to_save of adapter_config.json names ", target,
                             " but no such tensor is here"));
  }

  void fill_selection() {
    Selection& selection = adapter_.selection;
    selection.finetuning_type = FinetuningType::lora;
    for (const auto& module : adapter_.modules) selection.adapted_modules.push_back(module.name);
    for (const auto& module : modules_of(config_))
      if (std::ranges::any_of(adapter_.saved_weights,
                              [&](const auto& entry) { return module_of(entry.first) == module; }))
        selection.saved_modules.push_back(module);
    selection.target_modules = adapter_.config.target_modules;
    selection.target_regex = adapter_.config.target_regex;
    selection.layers = adapter_.config.layers_to_transform;
    select_parameters(config_, selection);
  }

  const model::ModelConfig& config_;
  std::string origin_;
  PeftAdapter adapter_;
  std::unordered_map<std::string, at::Tensor> a_, b_;
  std::map<std::string, at::Tensor> saved_;
};
}  // namespace

PeftAdapter read_peft_adapter(const std::filesystem::path& folder, const model::ModelConfig& config) {
  return within("reading the adapter " + folder.string(), [&] { return Reader(folder, config).finish(); });
}

namespace {
/// The slice held here of a whole tensor.
void take(Parameter& parameter, at::Tensor whole) {
  for (int64_t dim = 0; dim < whole.dim(); ++dim)
    whole = whole.narrow(dim, parameter.offset[static_cast<size_t>(dim)], parameter.value.size(dim));
  parameter.value.copy_(whole);
}

bool has_tensor(const model::ModelConfig& config, const std::string& name) {
  const auto tensors = model::tensors_of(config);
  return std::ranges::any_of(tensors, [&](const auto& tensor) { return tensor.name == name; });
}
}  // namespace

void apply_adapter(model::Decoder& decoder, const PeftAdapter& adapter, bool is_trainable, uint64_t seed) {
  for (const auto& module : adapter.modules) {
    model::Linear* linear = decoder.find_linear(module.name);
    if (linear == nullptr) continue;
    auto lora = std::make_unique<LoraAdapter>(*linear, module.lora, seed);
    take(lora->a(), module.a);
    take(lora->b(), module.b);
    lora->a().is_trainable = lora->b().is_trainable = is_trainable;
    linear->attach(std::move(lora));
  }
  for (const auto& [name, value] : adapter.saved_weights) {
    if (Parameter* parameter = decoder.find(name))
      take(*parameter, value);
    else if (!has_tensor(decoder.config(), name))
      throw StateError("the adapter was read for another model: no " + name);
  }
  const auto& trained = adapter.selection.trainable_parameters;
  decoder.set_trainable([&](const std::string& name) {
    return is_trainable && std::ranges::find(trained, name) != trained.end();
  });
}

}  // namespace duoka::tune
