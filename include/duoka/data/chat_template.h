// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "duoka/data/conversation.h"

namespace duoka::data {

/// Whose words a piece of rendered text is.
enum class Words {
  of_template,  ///< Written by the template, or a special token it was given. May become control tokens.
  of_content,   ///< Came out of a message's content.
  of_call,      ///< Came out of a message's tool calls or reasoning: what a model says besides content.
  of_field,     ///< Came out of another field of a message: a name, the id of a call.
  of_caller,    ///< Came out of the tools or the extra variables.
};

/// A stretch of rendered text from one source. Everything but the template's own words is what somebody
/// typed, and must never be read as a control token. Empty where an empty content was printed.
struct Piece {
  std::string text;
  int message = -1;  ///< Index of the message it came from; -1 for of_template and of_caller.
  Words words = Words::of_template;
  bool is_generation = false;  ///< Inside {% generation %} … {% endgeneration %}.

  bool operator==(const Piece&) const = default;
};

namespace jinja {
struct Program;
}

/// A model's chat template: the part of Jinja that templates of models use, interpreted as transformers
/// runs it (immutable sandbox, trim_blocks and lstrip_blocks on, no HTML escaping, one trailing newline of
/// the source dropped). A value: copies share the parsed program. render() may be called from many threads.
class ChatTemplate {
 public:
  /// What the template sees besides the conversation. An empty token is undefined to the template, as for
  /// a tokenizer that has none.
  struct Variables {
    std::string bos_token;
    std::string eos_token;
    std::string pad_token;
    std::string unk_token;
    bool add_generation_prompt = false;
    /// What strftime_now takes for now, in seconds since 1970 of the local calendar; negative: the clock's.
    int64_t now = -1;
    /// More variables as the text of a JSON object, or "": {"enable_thinking": false}.
    std::string extra_json;
  };
  /// Bounds of one rendering. Text typed by the conversation counts too; the defaults leave room for a
  /// conversation of tens of megabytes.
  struct Limits {
    int64_t max_steps = 4'000'000;       ///< Statements, operations and list items handled.
    int64_t max_output_bytes = 1 << 28;  ///< Of the rendering, and of any one value.
    int64_t max_work_bytes = 1LL << 31;  ///< Of all text made on the way.
    int max_depth = 1000;                ///< Nesting of macros, blocks and expressions.
  };

  /// Throws FormatError "origin:line: why" where the source is no template, names a filter, test or tag
  /// that does not exist, or nests too deeply. `origin`: a file's name, for messages.
  static ChatTemplate parse(std::string source, std::string origin);

  /// The text in pieces, in order, neighbours differing in source.
  /// Strings carry their source through joining, trimming, slicing, replacing, splitting, change of case
  /// and tojson, so pieces do not depend on searching.
  /// Throws DataError where the template refuses the conversation (raise_exception) or a message is not
  /// fit to render; FormatError "origin:line: why, in `expression`" where the template itself fails or
  /// passes a limit.
  std::vector<Piece> render(const Conversation& conversation, const Variables& variables) const;
  std::vector<Piece> render(const Conversation& conversation, const Variables& variables,
                            const Limits& limits) const;
  /// The same, joined.
  std::string render_text(const Conversation& conversation, const Variables& variables) const;

  /// True when the source has {% generation %} marks.
  bool has_generation_marks() const;
  const std::string& source() const;

 private:
  explicit ChatTemplate(std::shared_ptr<const jinja::Program> program);

  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace duoka::data
