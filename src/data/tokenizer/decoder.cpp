// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/decoder.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "data/tokenizer/byte_alphabet.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

class ByteLevelDecoder final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens, bool) const override {
    for (std::string& token : tokens) {
      // A token outside the byte alphabet (an added one) stands for its own text.
      if (auto bytes = spelled_bytes(token)) token = std::move(*bytes);
    }
  }
};

class ReplaceDecoder final : public DecoderStep {
 public:
  ReplaceDecoder(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  void apply(std::vector<std::string>& tokens, bool) const override {
    for (std::string& token : tokens) replace_all(token, from_, to_);
  }

 private:
  std::string from_;
  std::string to_;
};

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

/// "<0xE4>" is the byte E4.
class ByteFallbackDecoder final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens, bool) const override {
    for (std::string& token : tokens) {
      if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') continue;
      const auto high = hex_digit(token[3]);
      const auto low = hex_digit(token[4]);
      if (high && low) token.assign(1, static_cast<char>(*high << 4 | *low));
    }
  }
};

class FuseDecoder final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens, bool) const override {
    std::string all;
    for (const std::string& token : tokens) all.append(token);
    tokens.clear();
    tokens.push_back(std::move(all));
  }
};

/// Takes up to `start` copies of `content` from the left of each token and `stop` from the right. Behind a
/// Fuse the one token is the whole text.
class StripDecoder final : public DecoderStep {
 public:
  StripDecoder(std::string content, int64_t start, int64_t stop, bool is_fused)
      : content_(std::move(content)), start_(start), stop_(stop), is_fused_(is_fused) {}

  void apply(std::vector<std::string>& tokens, bool is_start) const override {
    if (is_fused_ && !is_start) return;
    for (std::string& token : tokens) {
      for (int64_t i = 0; i < start_ && token.starts_with(content_); ++i) token.erase(0, content_.size());
      for (int64_t i = 0; i < stop_ && token.ends_with(content_); ++i)
        token.resize(token.size() - content_.size());
    }
  }

 private:
  std::string content_;
  int64_t start_;
  int64_t stop_;
  bool is_fused_;
};

class MetaspaceDecoder final : public DecoderStep {
 public:
  MetaspaceDecoder(std::string mark, bool has_prefix) : mark_(std::move(mark)), has_prefix_(has_prefix) {}

  void apply(std::vector<std::string>& tokens, bool is_start) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      // Hugging Face's takes every mark out of the first token, not only the one that encoding put there.
      const bool is_first = i == 0 && is_start && has_prefix_;
      replace_all(tokens[i], mark_, is_first ? "" : " ");
    }
  }

 private:
  std::string mark_;
  bool has_prefix_;
};

class JoinDecoder final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& tokens, bool is_start) const override {
    for (size_t i = is_start ? 1 : 0; i < tokens.size(); ++i) tokens[i].insert(0, " ");
  }
};

std::unique_ptr<const DecoderStep> make_replace(const io::Json& json, const std::string& origin) {
  const io::Json& pattern = io::require_object(json, "pattern", origin);
  const auto from = io::optional_string(pattern, "String", origin);
  if (!from || from->empty()) {
    throw FormatError(text(origin, ": a Replace decoder with the pattern ", pattern.dump(),
                           " is not supported; wanted {\"String\": …}"));
  }
  return std::make_unique<ReplaceDecoder>(*from, io::require_string(json, "content", origin));
}

std::unique_ptr<const DecoderStep> make_strip(const io::Json& json, bool is_fused,
                                              const std::string& origin) {
  const std::string content = io::require_string(json, "content", origin);
  if (content.empty()) throw FormatError(text(origin, ": a Strip decoder has an empty content"));
  return std::make_unique<StripDecoder>(content, io::require_int(json, "start", origin),
                                        io::require_int(json, "stop", origin), is_fused);
}

std::unique_ptr<const DecoderStep> make_metaspace(const io::Json& json, const std::string& origin) {
  const bool adds = io::optional_bool(json, "add_prefix_space", origin).value_or(true);
  const std::string scheme =
      io::optional_string(json, "prepend_scheme", origin).value_or(adds ? "always" : "never");
  const std::string mark = io::require_string(json, "replacement", origin);
  if (mark.empty()) throw FormatError(text(origin, ": a Metaspace decoder has an empty replacement"));
  return std::make_unique<MetaspaceDecoder>(mark, scheme != "never");
}

void add_steps(const io::Json& json, const std::string& origin,
               std::vector<std::unique_ptr<const DecoderStep>>& steps, bool& is_fused) {
  const std::string type = io::require_string(json, "type", origin);
  if (type == "Sequence") {
    for (const io::Json& part : io::require_array(json, "decoders", origin)) {
      add_steps(part, origin, steps, is_fused);
    }
  } else if (type == "ByteLevel") {
    steps.push_back(std::make_unique<ByteLevelDecoder>());
  } else if (type == "Replace") {
    steps.push_back(make_replace(json, origin));
  } else if (type == "ByteFallback") {
    steps.push_back(std::make_unique<ByteFallbackDecoder>());
  } else if (type == "Fuse") {
    is_fused = true;
    steps.push_back(std::make_unique<FuseDecoder>());
  } else if (type == "Strip") {
    steps.push_back(make_strip(json, is_fused, origin));
  } else if (type == "Metaspace") {
    steps.push_back(make_metaspace(json, origin));
  } else {
    throw FormatError(text(origin, ": decoder ", type,
                           " is not supported; supported are ByteLevel, Replace, ByteFallback, Fuse, Strip, "
                           "Metaspace and Sequence"));
  }
}

}  // namespace

Decoder::Decoder(const io::Json* json, const std::string& origin) {
  bool is_fused = false;
  if (json == nullptr || json->is_null()) {
    steps_.push_back(std::make_unique<JoinDecoder>());
  } else {
    add_steps(*json, origin, steps_, is_fused);
  }
}

std::string Decoder::decode(std::vector<std::string> tokens, bool is_start) const {
  for (const auto& step : steps_) step->apply(tokens, is_start);
  std::string bytes;
  for (const std::string& token : tokens) bytes.append(token);
  return bytes;
}

}  // namespace duoka::data
