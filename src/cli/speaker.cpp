// SPDX-License-Identifier: Apache-2.0
#include "cli/speaker.h"

#include <ATen/Context.h>

#include "cli/model_files.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/data/render.h"
#include "duoka/data/streaming_decoder.h"

namespace duoka::cli {

namespace {

model::Decoder load(const GenerateArguments& arguments, const Log& log) {
  const at::Device device = at::hasCUDA() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  model::Decoder decoder = model::Decoder::load(arguments.model_name_or_path,
                                                {arguments.bf16 ? at::kBFloat16 : at::kFloat, device, log});
  attach_adapter(decoder, arguments.adapter_name_or_path, arguments.model_name_or_path, log);
  return decoder;
}

std::vector<int64_t> widened(const std::vector<int32_t>& ids) { return {ids.begin(), ids.end()}; }

}  // namespace

Speaker::Speaker(const GenerateArguments& arguments, const Log& log)
    : arguments_(arguments),
      tokenizer_(open_tokenizer(arguments.model_name_or_path)),
      template_(open_template(arguments.template_, tokenizer_, arguments.model_name_or_path)),
      decoder_(load(arguments, log)),
      stop_ids_(stop_ids(template_, tokenizer_, decoder_.config())) {
  warn_template(arguments.template_, arguments.model_name_or_path, log);
}

std::vector<int64_t> Speaker::prompt_ids(const data::Conversation& conversation) const {
  if (!template_)
    throw ConfigError(
        text(arguments_.model_name_or_path,
             " carries no chat template; give template=FILE.jinja, or raw=true to continue plain text"));
  return widened(data::render_prompt(conversation, *template_, tokenizer_));
}

std::vector<int64_t> Speaker::text_ids(const std::string& words) const {
  return widened(tokenizer_.encode(words).ids);
}

std::string Speaker::reply(const std::vector<int64_t>& prompt,
                           const std::function<bool(const std::string&)>& on_text) {
  model::GenerateOptions options;
  options.max_new_tokens = arguments_.max_new_tokens;
  options.stop_ids = stop_ids_;
  options.sampling = sampling_of(arguments_);
  options.sampling.seed += static_cast<uint64_t>(num_replies_++);
  data::StreamingDecoder decoder(tokenizer_, true);
  std::string whole;
  const auto take = [&](const std::string& piece) {
    whole += piece;
    return piece.empty() || on_text(piece);
  };
  model::generate(decoder_, prompt, options,
                  [&](int64_t id) { return take(decoder.push(static_cast<int32_t>(id))); });
  take(decoder.finish());
  return whole;
}

}  // namespace duoka::cli
