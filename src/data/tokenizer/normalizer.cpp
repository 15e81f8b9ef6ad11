// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/normalizer.h"

#include <nlohmann/json.hpp>
#include <utf8proc.h>

#include "data/tokenizer/pattern.h"
#include "data/tokenizer/unicode.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

class Lowercase final : public Normalizer {
 public:
  void apply(AlignedText& text, MatchState&) const override {
    const std::string_view view = text.view();
    Rewrite out(text);
    std::string lower;
    for (size_t i = 0; i < view.size();) {
      const CodePoint c = first_code_point(view.substr(i));
      lower.clear();
      append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.value))), lower);
      if (c.value == 0x130) lower = "i\xCC\x87";  // the one letter whose lower case is two characters
      out.put(lower, i);
      i += c.size;
    }
    out.finish();
  }
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}

  void apply(AlignedText& text, MatchState&) const override {
    if (text.view().empty()) return;
    Rewrite out(text);
    out.put(prefix_, 0);
    out.keep(0, text.view().size());
    out.finish();
  }

 private:
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  Replace(const io::Json& json, const std::string& origin)
      : pattern_(json, origin), content_(io::require_string(json, "content", origin)) {}

  void apply(AlignedText& text, MatchState& state) const override {
    const std::string_view view = text.view();
    auto match = pattern_.find(view, 0, state);
    if (!match) return;
    Rewrite out(text);
    size_t done = 0;
    for (; match; match = pattern_.find(view, done, state)) {
      out.keep(done, match->begin);
      out.put(content_, match->begin);
      done = match->end;
    }
    out.keep(done, view.size());
    out.finish();
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class StripSpaces final : public Normalizer {
 public:
  StripSpaces(bool left, bool right) : left_(left), right_(right) {}

  void apply(AlignedText& text, MatchState&) const override {
    const std::string_view view = text.view();
    size_t begin = 0;
    size_t end = view.size();
    while (left_ && begin < end) {
      const CodePoint c = first_code_point(view.substr(begin));
      if (!is_space(c.value)) break;
      begin += c.size;
    }
    while (right_ && end > begin) {
      const CodePoint c = last_code_point(view.substr(begin, end - begin));
      if (!is_space(c.value)) break;
      end -= c.size;
    }
    if (begin == 0 && end == view.size()) return;
    Rewrite out(text);
    out.keep(begin, end);
    out.finish();
  }

 private:
  bool left_;
  bool right_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<const Normalizer>> parts)
      : parts_(std::move(parts)) {}

  void apply(AlignedText& text, MatchState& state) const override {
    for (const auto& part : parts_) part->apply(text, state);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_normalizer(const io::Json* json, const std::string& origin) {
  if (json == nullptr || json->is_null()) return nullptr;
  const std::string type = io::require_string(*json, "type", origin);
  if (type == "Sequence") {
    std::vector<std::unique_ptr<const Normalizer>> parts;
    for (const io::Json& part : io::require_array(*json, "normalizers", origin)) {
      parts.push_back(make_normalizer(&part, origin));
    }
    return std::make_unique<NormalizerSequence>(std::move(parts));
  }
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") return make_unicode_form(type);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "Prepend") return std::make_unique<Prepend>(io::require_string(*json, "prepend", origin));
  if (type == "Replace") return std::make_unique<Replace>(*json, origin);
  if (type == "Strip") {
    return std::make_unique<StripSpaces>(io::require_bool(*json, "strip_left", origin),
                                         io::require_bool(*json, "strip_right", origin));
  }
  throw FormatError(
      text(origin, ": normalizer ", type,
           " is not supported; supported are NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, "
           "Strip and Sequence"));
}

}  // namespace duoka::data
