// SPDX-License-Identifier: Apache-2.0
#include "cli/lazy_encoder.h"

#include "cli/model_files.h"
#include "duoka/core/text.h"

namespace duoka::cli {

const data::Tokenizer& LazyEncoder::tokenizer() {
  if (!tokenizer_) tokenizer_ = open_tokenizer(arguments_.model_name_or_path);
  return *tokenizer_;
}

const data::RowEncoder& LazyEncoder::encoder() {
  if (encoder_) return *encoder_;
  template_ = open_template(arguments_.template_, tokenizer(), arguments_.model_name_or_path);
  encoder_.emplace(tokenizer(), template_ ? &*template_ : nullptr, rules());
  return *encoder_;
}

data::EncoderSource LazyEncoder::source() {
  data::EncoderSource source;
  source.identity = text(rules().identity(), ";template ", arguments_.template_);
  source.files = tokenizer_files(arguments_.model_name_or_path);
  if (is_template_file(arguments_.template_)) source.files.emplace_back(arguments_.template_);
  source.open = [this]() -> const data::RowEncoder& { return encoder(); };
  return source;
}

data::EncodeRules LazyEncoder::rules() const {
  data::EncodeRules rules;
  rules.stage = arguments_.stage == "pt" ? data::Stage::pt : data::Stage::sft;
  rules.cutoff_len = arguments_.cutoff_len;
  rules.is_chunking = arguments_.packing && rules.stage == data::Stage::pt;
  rules.render.train_on_prompt = arguments_.train_on_prompt;
  rules.render.mask_history = arguments_.mask_history;
  return rules;
}

}  // namespace duoka::cli
