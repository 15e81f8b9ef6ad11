// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/inspect.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <ostream>

#include "data/json_row.h"
#include "duoka/core/text.h"
#include "duoka/data/tokenizer.h"

namespace duoka::data {

namespace {

constexpr int32_t not_trained = -100;

std::string byte_escape(unsigned char byte) {
  static constexpr std::string_view digits = "0123456789abcdef";
  return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

/// Bytes of the UTF-8 character at the start of `bytes`; 0 when there is no whole, printable one.
size_t character_size(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes.front());
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7F ? 1 : 0;
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (bytes.size() < size || !is_utf8(bytes.substr(0, size))) return 0;
  // U+0080 to U+009F are control characters to a terminal.
  return lead == 0xC2 && static_cast<unsigned char>(bytes[1]) < 0xA0 ? 0 : size;
}

std::string shown(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t size = character_size(bytes);
    if (size > 0)
      out += bytes.substr(0, size);
    else if (bytes.front() == '\n')
      out += "⏎";
    else
      out += byte_escape(static_cast<unsigned char>(bytes.front()));
    bytes.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

std::string shown_token(int32_t id, const Tokenizer& tokenizer) {
  if (id < 0 || id >= tokenizer.vocab_size()) return text("<id ", id, ">");
  const std::string bytes = tokenizer.token_bytes(id);
  return bytes.empty() ? text("<id ", id, ">") : shown(bytes);
}

std::string marked(const std::string& token, bool is_trained, bool has_colors, size_t number) {
  if (!has_colors) return is_trained ? "[" + token + "]" : token;
  if (!is_trained) return "\x1b[2m" + token + "\x1b[0m";
  // Two shades in turn show where one token ends and the next begins.
  return (number % 2 == 0 ? "\x1b[32m" : "\x1b[1;32m") + token + "\x1b[0m";
}

void write_file(std::ostream& out, const Dataset::Part& part, int64_t limit) {
  const TokenCache::Counts counts = part.cache.counts();
  out << part.source.path << ": " << summary(counts) << "\n";
  for (const auto& refusal : part.cache.refusals(limit))
    out << "  " << part.source.path << ":" << refusal.line << ": refused: " << shown(refusal.text) << "\n";
  if (counts.num_refused > limit) out << "  … and " << counts.num_refused - limit << " more refused\n";
  for (const auto& warning : part.cache.warnings(limit))
    out << "  " << part.source.path << ":" << warning.line << ": warning: " << shown(warning.text) << "\n";
}

void write_rows(std::ostream& out, const RowSet& rows, const Tokenizer& tokenizer,
                const InspectOptions& options) {
  for (int64_t i = 0; i < std::min(options.num_rows, rows.size()); ++i) {
    std::vector<int32_t> ids;
    std::vector<int32_t> labels;
    rows.read(i, ids, labels);
    const RowLength length = rows.length(i);
    out << "\nrow " << rows.id(i) << ": " << counted(length.num_tokens, "token") << ", " << length.num_trained
        << " trained\n"
        << marked_tokens(ids, labels, tokenizer, options.has_colors, options.max_row_tokens) << "\n";
  }
}

/// Twelve bars at most, of equal width in tokens; empty ones before the first are left out.
void write_histogram(std::ostream& out, const RowSet& rows) {
  int64_t longest = 0;
  for (int64_t i = 0; i < rows.size(); ++i) longest = std::max<int64_t>(longest, rows.length(i).num_tokens);
  const int64_t width = std::max<int64_t>(1, (longest + 11) / 12);
  std::array<int64_t, 12> counts{};
  for (int64_t i = 0; i < rows.size(); ++i)
    ++counts[static_cast<size_t>((rows.length(i).num_tokens - 1) / width)];
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  out << "\nlengths in tokens, after the cut\n";
  auto i = static_cast<size_t>(std::ranges::find_if(counts, [](int64_t count) { return count > 0; }) -
                               counts.begin());
  for (; i < counts.size() && static_cast<int64_t>(i) * width < longest; ++i) {
    const auto from = static_cast<int64_t>(i) * width + 1;
    out << std::setw(8) << from << " - " << std::setw(7) << from + width - 1 << std::setw(11)
        << count_text(counts[i]) << "  "
        << std::string(static_cast<size_t>((counts[i] * 40 + most - 1) / std::max<int64_t>(1, most)), '#')
        << "\n";
  }
}

void write_totals(std::ostream& out, const RowSet& rows, const InspectOptions& options) {
  int64_t tokens = 0;
  int64_t trained = 0;
  for (int64_t i = 0; i < rows.size(); ++i) {
    const RowLength length = rows.length(i);
    tokens += length.num_tokens;
    trained += length.num_trained;
  }
  const TokenCache::Counts counts = rows.dataset().counts();
  out << "\n"
      << counted(rows.size(), "row") << ", " << counted(tokens, "token") << ", " << count_text(trained)
      << " trained; " << counts.num_cut << " cut at " << options.cutoff_len << ", the longest had "
      << count_text(counts.longest) << "\n";
  const EpochPlan plan = plan_epoch(rows.lengths(), options.pack, 0);
  out << counted(plan.num_streams(), "micro-batch") << " in " << counted(plan.num_updates(), "update")
      << " an epoch";
  if (options.pack.is_packing)
    out << "; packing fills " << std::fixed << std::setprecision(1)
        << 100 * plan.fill(options.pack.tokens_per_stream) << " % of " << options.pack.tokens_per_stream
        << " tokens" << std::defaultfloat;
  out << "\n" << summary(counts) << "\n";
}

}  // namespace

std::string marked_tokens(std::span<const int32_t> ids, std::span<const int32_t> labels,
                          const Tokenizer& tokenizer, bool has_colors, int64_t max_tokens) {
  const auto limit = static_cast<size_t>(std::max<int64_t>(2, max_tokens));
  std::string out;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids.size() > limit && i == limit / 2) {
      const size_t left_out = ids.size() - limit / 2 * 2;
      out += text(" … ", counted(static_cast<int64_t>(left_out), "token"), " … ");
      i += left_out;
    }
    out += marked(shown_token(ids[i], tokenizer), labels[i] != not_trained, has_colors, i);
  }
  return out;
}

void inspect(std::ostream& out, const RowSet& rows, const Tokenizer& tokenizer,
             const InspectOptions& options) {
  for (const Dataset::Part& part : rows.dataset().parts()) write_file(out, part, options.num_refusals);
  write_rows(out, rows, tokenizer, options);
  write_histogram(out, rows);
  write_totals(out, rows, options);
}

}  // namespace duoka::data
