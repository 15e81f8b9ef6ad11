// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/row_encoder.h"

#include <algorithm>
#include <utility>

#include "data/json_row.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/data/chat_template.h"
#include "duoka/data/tokenizer.h"

namespace duoka::data {

namespace {

constexpr int32_t not_trained = -100;

/// Tokens that will be targets: the first one of a row has nothing to be predicted from.
bool has_target(const EncodedRow& row) {
  return std::any_of(row.labels.begin() + 1, row.labels.end(),
                     [](int32_t label) { return label != not_trained; });
}

EncodedRow piece_of(const EncodedRow& row, size_t begin, size_t end) {
  const auto at = [](const std::vector<int32_t>& values, size_t i) {
    return values.begin() + static_cast<std::ptrdiff_t>(i);
  };
  EncodedRow piece;
  piece.ids.assign(at(row.ids, begin), at(row.ids, end));
  piece.labels.assign(at(row.labels, begin), at(row.labels, end));
  piece.labels.front() = not_trained;
  return piece;
}

}  // namespace

RowEncoder::RowEncoder(const Tokenizer& tokenizer, const ChatTemplate* chat_template, EncodeRules rules)
    : tokenizer_(&tokenizer), template_(chat_template), rules_(std::move(rules)) {
  if (rules_.cutoff_len < 2)
    throw ConfigError(
        text("cutoff_len = ", rules_.cutoff_len, "; wanted at least 2, or no token can be predicted"));
  if (rules_.stage == Stage::sft && template_ == nullptr)
    throw ConfigError("stage sft needs a chat template, and the model has none; set `template`");
  if (rules_.stage == Stage::pt && !tokenizer_->eos_id())
    throw ConfigError("stage pt ends each text with EOS, and the tokenizer names no such token");
}

EncodedRow RowEncoder::encode_text(const std::string& content) const {
  Encoding encoding = tokenizer_->encode(content);
  std::vector<int32_t>& ids = encoding.ids;
  EncodedRow row;
  const int32_t eos = *tokenizer_->eos_id();
  // A token the post-processor put behind the text starts at its end; an EOS typed by somebody does not.
  const bool has_eos = !ids.empty() && ids.back() == eos && encoding.begins.back() == content.size();
  if (!has_eos) ids.push_back(eos);
  if (const auto bos = tokenizer_->bos_id(); bos && ids.size() > 1 && ids[0] == *bos && ids[1] == *bos) {
    ids.erase(ids.begin());
    row.warnings.emplace_back(
        "the text begins with the BOS token, which the tokenizer adds too; one was kept");
  }
  row.labels = ids;
  row.labels.front() = not_trained;
  row.ids = std::move(ids);
  return row;
}

RowOutcome RowEncoder::encode(const RowContent& content) const {
  EncodedRow row = std::holds_alternative<std::string>(content)
                       ? encode_text(std::get<std::string>(content))
                       : render_row(std::get<Conversation>(content), *template_, *tokenizer_, rules_.render);
  RowOutcome outcome;
  outcome.full_tokens = static_cast<int64_t>(row.ids.size());
  outcome.warnings = std::move(row.warnings);
  if (row.ids.empty() || !has_target(row)) {
    outcome.refusal = text("no token to train in ", counted(outcome.full_tokens, "token"));
    return outcome;
  }
  const auto cutoff = static_cast<size_t>(rules_.cutoff_len);
  const bool is_long = row.ids.size() > cutoff;
  outcome.was_cut = is_long && !rules_.is_chunking;
  const size_t end = outcome.was_cut ? cutoff : row.ids.size();
  for (size_t begin = 0; begin < end; begin += cutoff) {
    EncodedRow piece = piece_of(row, begin, std::min(begin + cutoff, end));
    // Also drops a last piece of one token.
    if (has_target(piece)) outcome.rows.push_back(std::move(piece));
  }
  if (outcome.rows.empty())
    outcome.refusal = text("prompt fills the cutoff: no trained token among the first ", rules_.cutoff_len,
                           " of ", counted(outcome.full_tokens, "token"));
  return outcome;
}

std::string EncodeRules::identity() const {
  return text("encoding 1;stage ", static_cast<int>(stage), ";cutoff ", cutoff_len, ";chunking ", is_chunking,
              ";prompt ", render.train_on_prompt, ";history ", render.mask_history, ";extra ",
              json_quoted(render.extra_json));
}

std::string RowEncoder::identity() const {
  return text(rules_.identity(), ";tokenizer ", tokenizer_->fingerprint(), ";template ",
              template_ == nullptr || rules_.stage == Stage::pt ? std::string("none")
                                                                : json_quoted(template_->source()));
}

}  // namespace duoka::data
