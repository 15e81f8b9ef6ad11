// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace duoka::io {
class GgufFile;
}

namespace duoka::data {

/// A stretch of a text, in bytes: [begin, end).
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

/// Tokens of one text, in order.
struct Encoding {
  std::vector<int32_t> ids;
  /// begins[i]: byte of the text given to encode() at which token i starts; never falls along `ids`. A token
  /// that the post-processor adds stands at 0 (in front) or at the text's size (behind).
  std::vector<uint32_t> begins;
};

struct EncodeOptions {
  /// Whether the post-processor's tokens (BOS, EOS) are added. Leave off for text a chat template wrote.
  bool add_special_tokens = true;
  /// Ascending, disjoint ranges of the text typed by a user: a control token that overlaps one of them is
  /// read as plain text. A vocabulary that has a control token as its only spelling of a character or byte
  /// (a pad token "!") still yields it.
  std::span<const TextRange> literal = {};
};

/// Text to token ids and back, as Hugging Face's tokenizers does it, for the BPE kinds: byte-level (GPT-2,
/// Llama 3, Qwen, SmolLM) and character-level with byte fallback (Llama 2, Mistral).
///
/// What a file asks for decides; nothing is guessed from a model's name. A component that is not known
/// (Unigram, WordPiece, an exotic normalizer) is a FormatError naming it and the file. Immutable once
/// loaded; const members may be called from several threads at once.
class Tokenizer {
 public:
  /// Reads tokenizer.json and, where they exist, tokenizer_config.json, special_tokens_map.json and
  /// chat_template.jinja of a model's folder. Throws SystemError, FormatError.
  static Tokenizer from_folder(const std::filesystem::path& folder);
  /// The files that from_folder() reads or would read if they were there.
  static std::vector<std::filesystem::path> files_of_folder(const std::filesystem::path& folder);
  /// Reads one tokenizer.json: BOS, EOS, pad and chat template stay unknown.
  static Tokenizer from_json_file(const std::filesystem::path& path);
  /// Reads the tokenizer of a GGUF file (tokenizer.ggml.model "gpt2", known tokenizer.ggml.pre).
  static Tokenizer from_gguf(const io::GgufFile& file);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// `text`: UTF-8; each maximal invalid sequence is read as one U+FFFD, as Python's errors="replace" does.
  /// Throws DataError for 1 GiB and more. Near-linear time whatever the text; about 40 bytes of memory a
  /// byte of text at the worst (one unbroken piece).
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Text of `ids`, always valid UTF-8: lossy(decode_bytes()), each maximal invalid sequence one U+FFFD.
  /// Ids outside the vocabulary are passed over.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = false) const;
  /// The same before replacement of what is no UTF-8: what a token cut from a character leaves is kept.
  std::string decode_bytes(std::span<const int32_t> ids, bool skip_special_tokens = false) const;

  /// The bytes a token stands for in the middle of a text (a leading space kept); "" for an unused id.
  /// Throws StateError unless 0 <= id < vocab_size().
  std::string token_bytes(int32_t id) const;
  /// Whether the token is a control token (BOS, end of turn, …): its text in a prompt is never plain text.
  bool is_special(int32_t id) const;
  /// Id of the token whose entry in the vocabulary reads `token` ("<|im_end|>", "Ġthe").
  std::optional<int32_t> id_of(std::string_view token) const;
  /// Every id is below this. A model's embedding may have more rows, never fewer.
  int64_t vocab_size() const;

  /// Roles a model's files give to tokens; empty where they give none.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> pad_id() const;
  /// Their texts, "" where there is none.
  std::string bos_token() const;
  std::string eos_token() const;
  std::string pad_token() const;

  /// The model's own chat template (Jinja); of several named ones the one named "default".
  std::optional<std::string> chat_template() const;

  /// Hash of everything that decides ids; keys the token cache. Equal files give equal values on any machine.
  uint64_t fingerprint() const;

  /// Writes tokenizer.json and tokenizer_config.json (chat template included) into an existing folder: as
  /// loaded, or for a tokenizer from GGUF equivalent ones that Hugging Face's tokenizers loads.
  void save(const std::filesystem::path& folder) const;

 private:
  friend class EncodeRun;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace duoka::data
