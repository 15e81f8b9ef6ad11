// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/render.h"

#include <algorithm>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/data/tokenizer.h"
#include "duoka/io/json.h"

namespace duoka::data {
namespace {

constexpr int32_t not_trained = -100;

/// A rendering laid end to end, with the ranges nobody may read control tokens in.
struct Rendering {
  std::vector<Piece> pieces;
  std::string text;
  std::vector<size_t> begins;  ///< Of each piece, in bytes; one more for the end.
  std::vector<TextRange> literal;
};

/// Where a message's own words stand: pieces of it with nothing of another message between.
struct Turn {
  int message;
  TextRange range;
};

ChatTemplate::Variables variables_of(const Tokenizer& tokenizer, const std::string& extra_json) {
  ChatTemplate::Variables variables;
  variables.bos_token = tokenizer.bos_token();
  variables.eos_token = tokenizer.eos_token();
  variables.pad_token = tokenizer.pad_token();
  variables.extra_json = extra_json;
  return variables;
}

Rendering lay_out(std::vector<Piece> pieces) {
  Rendering out;
  for (const Piece& piece : pieces) {
    const size_t begin = out.text.size();
    out.begins.push_back(begin);
    out.text += piece.text;
    if (piece.words == Words::of_template || piece.text.empty()) continue;
    if (!out.literal.empty() && out.literal.back().end == begin) {
      out.literal.back().end = out.text.size();
    } else {
      out.literal.push_back({begin, out.text.size()});
    }
  }
  out.begins.push_back(out.text.size());
  out.pieces = std::move(pieces);
  return out;
}

Encoding encode(const Rendering& rendering, const Tokenizer& tokenizer) {
  return tokenizer.encode(rendering.text, {.add_special_tokens = false, .literal = rendering.literal});
}

/// Whether a model has to produce these words when the message is its own.
bool is_said(const Piece& piece) {
  return piece.message >= 0 && (piece.words == Words::of_content || piece.words == Words::of_call);
}

std::vector<Turn> turns_of(const Rendering& rendering) {
  std::vector<Turn> turns;
  for (size_t i = 0; i < rendering.pieces.size(); ++i) {
    const Piece& piece = rendering.pieces[i];
    if (!is_said(piece)) continue;
    const TextRange range{rendering.begins[i], rendering.begins[i + 1]};
    if (!turns.empty() && turns.back().message == piece.message) {
      turns.back().range.end = range.end;
    } else {
      turns.push_back({piece.message, range});
    }
  }
  return turns;
}

/// Offset of the first byte behind `from` that is not the template's.
size_t end_of_own_words(const Rendering& rendering, size_t from) {
  for (const TextRange& range : rendering.literal) {
    if (range.begin >= from) return range.begin;
  }
  return rendering.text.size();
}

size_t token_end(const Rendering& rendering, const Encoding& encoding, size_t token) {
  // Tokens of one character may share a begin; each counts for all of it.
  const uint32_t begin = encoding.begins[token];
  for (size_t next = token + 1; next < encoding.begins.size(); ++next) {
    if (encoding.begins[next] > begin) return encoding.begins[next];
  }
  return rendering.text.size();
}

/// Index of the first control token among the template's own words behind `from`.
std::optional<size_t> end_of_turn(const Rendering& rendering, const Encoding& encoding,
                                  const Tokenizer& tokenizer, size_t from) {
  const size_t limit = end_of_own_words(rendering, from);
  const auto first = std::lower_bound(encoding.begins.begin(), encoding.begins.end(), from);
  for (auto token = static_cast<size_t>(first - encoding.begins.begin());
       token < encoding.begins.size() && encoding.begins[token] < limit; ++token) {
    if (tokenizer.is_special(encoding.ids[token])) return token;
  }
  return std::nullopt;
}

/// Everything render_row() works on.
struct Row {
  const Conversation& conversation;
  const ChatTemplate& chat_template;
  const Tokenizer& tokenizer;
  const RenderOptions& options;
  Rendering rendering;
  Encoding encoding;

  const Message& message(int index) const { return conversation.messages[static_cast<size_t>(index)]; }
  bool is_answer(int index) const { return message(index).role == "assistant"; }
};

bool has_call(const Rendering& rendering, int message) {
  return std::any_of(rendering.pieces.begin(), rendering.pieces.end(), [&](const Piece& piece) {
    return piece.message == message && piece.words == Words::of_call;
  });
}

/// Length of the prompt in front of message `index`, if the row begins with exactly that prompt.
std::optional<size_t> prompt_size(const Row& row, int index) {
  Conversation before = row.conversation;
  before.messages.resize(static_cast<size_t>(index));
  auto variables = variables_of(row.tokenizer, row.options.extra_json);
  variables.add_generation_prompt = true;
  std::string prompt;
  try {
    prompt = row.chat_template.render_text(before, variables);
  } catch (const Error&) {
    // Some templates refuse a conversation that stops there; the first word said then is the start.
    return std::nullopt;
  }
  if (!row.rendering.text.starts_with(prompt)) return std::nullopt;
  return prompt.size();
}

/// The turn from its first trained byte to its end token. Around a tool call or reasoning the template
/// writes words (an opening tag) that the model must produce too: they begin where the prompt ends.
TextRange trained_range(const Row& row, const Turn& turn, size_t previous_end) {
  TextRange range = turn.range;
  if (has_call(row.rendering, turn.message)) {
    const auto prompt = prompt_size(row, turn.message);
    if (prompt && *prompt >= previous_end && *prompt < range.begin) range.begin = *prompt;
  }
  const auto token = end_of_turn(row.rendering, row.encoding, row.tokenizer, range.end);
  if (token) range.end = token_end(row.rendering, row.encoding, *token);
  return range;
}

int last_answer(const Conversation& conversation) {
  for (size_t i = conversation.messages.size(); i > 0; --i) {
    if (conversation.messages[i - 1].role == "assistant") return static_cast<int>(i - 1);
  }
  return -1;
}

/// Ranges of assistant turns whose is_trained is `is_trained`.
std::vector<TextRange> answer_ranges(const Row& row, bool is_trained) {
  std::vector<TextRange> ranges;
  const int last = last_answer(row.conversation);
  size_t previous_end = 0;
  for (const Turn& turn : turns_of(row.rendering)) {
    const bool is_wanted = row.is_answer(turn.message) &&
                           row.message(turn.message).is_trained == is_trained &&
                           (!row.options.mask_history || turn.message == last);
    if (is_wanted) ranges.push_back(trained_range(row, turn, previous_end));
    previous_end = turn.range.end;
  }
  return ranges;
}

/// Runs of pieces inside {% generation %}; those that hold a turn not to be trained are left out.
std::vector<TextRange> generation_ranges(const Row& row) {
  std::vector<TextRange> ranges;
  bool is_open = false, is_trained = true;
  for (size_t i = 0; i < row.rendering.pieces.size(); ++i) {
    const Piece& piece = row.rendering.pieces[i];
    if (!piece.is_generation) {
      if (is_open && !is_trained) ranges.pop_back();
      is_open = false;
      continue;
    }
    if (!is_open) {
      ranges.push_back({row.rendering.begins[i], row.rendering.begins[i]});
      is_trained = true;
    }
    is_open = true;
    ranges.back().end = row.rendering.begins[i + 1];
    if (piece.message >= 0 && !row.message(piece.message).is_trained) is_trained = false;
  }
  if (is_open && !is_trained) ranges.pop_back();
  if (row.options.mask_history && ranges.size() > 1) ranges.erase(ranges.begin(), ranges.end() - 1);
  return ranges;
}

/// Sets the labels of all tokens that overlap one of `ranges` (ascending).
void mark_labels(const Row& row, const std::vector<TextRange>& ranges, bool is_trained,
                 std::vector<int32_t>& labels) {
  size_t next = 0;
  for (size_t token = 0; token < labels.size(); ++token) {
    const size_t begin = row.encoding.begins[token];
    while (next < ranges.size() && ranges[next].end <= begin) ++next;
    if (next == ranges.size()) return;
    const bool overlaps = ranges[next].begin < token_end(row.rendering, row.encoding, token);
    if (overlaps) labels[token] = is_trained ? row.encoding.ids[token] : not_trained;
  }
}

std::vector<int32_t> labels_of(const Row& row) {
  std::vector<int32_t> labels(row.encoding.ids.size(), not_trained);
  if (row.options.train_on_prompt) {
    labels = row.encoding.ids;
    mark_labels(row, answer_ranges(row, false), false, labels);
  } else if (row.chat_template.has_generation_marks()) {
    mark_labels(row, generation_ranges(row), true, labels);
  } else {
    mark_labels(row, answer_ranges(row, true), true, labels);
  }
  return labels;
}

bool has_tool_calls(const Message& message) {
  if (message.fields_json.empty()) return false;
  const io::Json fields = io::parse_json(message.fields_json, "fields of a message");
  const auto found = fields.find("tool_calls");
  return found != fields.end() && !found->empty();
}

std::vector<std::string> warnings_of(const Row& row) {
  std::vector<std::string> warnings;
  const std::string bos = row.tokenizer.bos_token();
  for (size_t i = 0; i < row.conversation.messages.size(); ++i) {
    const Message& message = row.conversation.messages[i];
    if (has_tool_calls(message) && !has_call(row.rendering, static_cast<int>(i))) {
      warnings.push_back(
          text("the template does not render tool_calls: those of message ", i + 1, " are left out"));
    }
    if (!bos.empty() && message.content.starts_with(bos)) {
      warnings.push_back(text("the text of message ", i + 1, " begins with ", bos,
                              ": it is read as plain text; leave it out, the template writes BOS"));
    }
  }
  return warnings;
}

/// Adds the control token behind the assistant's turn of `probe` to `ids`, if there is one.
void add_turn_end(const Conversation& probe, const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                  std::set<int32_t>& ids) {
  const Rendering rendering = lay_out(chat_template.render(probe, variables_of(tokenizer, "")));
  const Encoding encoding = encode(rendering, tokenizer);
  for (const Turn& turn : turns_of(rendering)) {
    if (turn.message != 1) continue;
    const auto token = end_of_turn(rendering, encoding, tokenizer, turn.range.end);
    if (token) ids.insert(encoding.ids[*token]);
  }
}

}  // namespace

EncodedRow render_row(const Conversation& conversation, const ChatTemplate& chat_template,
                      const Tokenizer& tokenizer, const RenderOptions& options) {
  if (options.train_on_prompt && options.mask_history) {
    throw ConfigError("train_on_prompt and mask_history exclude each other; set one of them to false");
  }
  Row row{conversation, chat_template, tokenizer, options, {}, {}};
  row.rendering = lay_out(chat_template.render(conversation, variables_of(tokenizer, options.extra_json)));
  row.encoding = encode(row.rendering, tokenizer);
  EncodedRow out;
  out.labels = labels_of(row);
  out.warnings = warnings_of(row);
  out.ids = std::move(row.encoding.ids);
  return out;
}

std::vector<int32_t> render_prompt(const Conversation& conversation, const ChatTemplate& chat_template,
                                   const Tokenizer& tokenizer, const std::string& extra_json) {
  auto variables = variables_of(tokenizer, extra_json);
  variables.add_generation_prompt = true;
  return encode(lay_out(chat_template.render(conversation, variables)), tokenizer).ids;
}

std::vector<int32_t> turn_end_ids(const ChatTemplate& chat_template, const Tokenizer& tokenizer) {
  std::set<int32_t> ids;
  // In the middle and at the end of a conversation: some templates write another token there.
  Conversation probe{{{"user", "a"}, {"assistant", "b"}}, ""};
  add_turn_end(probe, chat_template, tokenizer, ids);
  probe.messages.push_back({"user", "c"});
  add_turn_end(probe, chat_template, tokenizer, ids);
  if (const auto eos = tokenizer.eos_id()) ids.insert(*eos);
  return {ids.begin(), ids.end()};
}

}  // namespace duoka::data
