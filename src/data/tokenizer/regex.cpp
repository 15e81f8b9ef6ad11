// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer/regex.h"

#include <array>
#include <new>
#include <utility>

#include <pcre2.h>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {
namespace {

constexpr size_t first_stack_bytes = size_t{32} << 10;
constexpr size_t max_stack_bytes = size_t{64} << 20;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

template <auto release>
struct Release {
  template <class Handle>
  void operator()(Handle* handle) const {
    release(handle);
  }
};

}  // namespace

struct MatchState::Handles {
  std::unique_ptr<pcre2_match_data, Release<pcre2_match_data_free>> data;
  std::unique_ptr<pcre2_match_context, Release<pcre2_match_context_free>> context;
  std::unique_ptr<pcre2_jit_stack, Release<pcre2_jit_stack_free>> stack;
};

MatchState::MatchState() : handles_(std::make_unique<Handles>()) {
  // One pair of offsets: groups are never asked for.
  handles_->data.reset(pcre2_match_data_create(1, nullptr));
  handles_->context.reset(pcre2_match_context_create(nullptr));
  handles_->stack.reset(pcre2_jit_stack_create(first_stack_bytes, max_stack_bytes, nullptr));
  if (!handles_->data || !handles_->context) throw std::bad_alloc();
  // Without a stack (no compiler for this machine) the interpreter is used.
  if (handles_->stack) pcre2_jit_stack_assign(handles_->context.get(), nullptr, handles_->stack.get());
}

MatchState::~MatchState() = default;

struct Regex::Code {
  std::unique_ptr<pcre2_code, Release<pcre2_code_free>> code;
  bool is_native = false;  ///< Compiled to machine code.
};

Regex::Regex(std::string_view pattern, const std::string& origin) : code_(std::make_unique<Code>()) {
  const std::string translated = translate_pattern(pattern, origin);
  int error = 0;
  size_t offset = 0;
  // Oniguruma's ^ and $ are those of lines.
  code_->code.reset(pcre2_compile(units(translated), translated.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, nullptr));
  if (!code_->code) {
    throw FormatError(text(origin, ": the pattern ", pattern, " does not compile: ", pcre2_message(error),
                           " at byte ", offset, " of ", translated));
  }
  code_->is_native = pcre2_jit_compile(code_->code.get(), PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::optional<Regex::Match> Regex::find(std::string_view subject, size_t from, MatchState& state) const {
  const pcre2_code* code = code_->code.get();
  pcre2_match_data* data = state.handles_->data.get();
  pcre2_match_context* context = state.handles_->context.get();
  const int found =
      code_->is_native
          ? pcre2_jit_match(code, units(subject), subject.size(), from, 0, data, context)
          : pcre2_match(code, units(subject), subject.size(), from, PCRE2_NO_UTF_CHECK, data, context);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) {
    throw DataError(text("the tokenizer's pattern gave up at byte ", from, " of a text of ", subject.size(),
                         " bytes: ", pcre2_message(found)));
  }
  const size_t* offsets = pcre2_get_ovector_pointer(data);
  return Match{offsets[0], offsets[1]};
}

}  // namespace duoka::data
