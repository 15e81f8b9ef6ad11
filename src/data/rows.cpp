// SPDX-License-Identifier: Apache-2.0
#include "duoka/data/rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::data {

namespace {

constexpr int64_t rows_a_mark = 64;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

/// Position of the next '\n' from `at`, or the end.
size_t line_end(std::string_view text, size_t at) {
  const void* found = at < text.size() ? std::memchr(text.data() + at, '\n', text.size() - at) : nullptr;
  return found == nullptr ? text.size() : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

int64_t count_lines(std::string_view text) { return std::count(text.begin(), text.end(), '\n'); }

/// The line of ever later positions.
class LineCounter {
 public:
  explicit LineCounter(std::string_view text) : text_(text) {}
  int64_t line_at(size_t position) {
    line_ += count_lines(text_.substr(at_, position - at_));
    at_ = position;
    return line_;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

void refuse_other_kinds(const std::string& path, std::string_view bytes) {
  struct Kind {
    std::string_view magic;
    std::string_view name;
  };
  static constexpr std::array<Kind, 8> kinds = {{{"PAR1", "a Parquet file"},
                                                 {"ARROW1", "an Arrow file"},
                                                 {"\x1f\x8b", "compressed with gzip"},
                                                 {"PK\x03\x04", "a zip file"},
                                                 {"\x28\xb5\x2f\xfd", "compressed with zstd"},
                                                 {"SQLite format 3", "an SQLite file"},
                                                 {"\xff\xfe", "UTF-16 text"},
                                                 {"\xfe\xff", "UTF-16 text"}}};
  for (const Kind& kind : kinds)
    if (bytes.starts_with(kind.magic))
      throw DataError(text(path, ": is ", kind.name, "; convert it to JSON lines or JSON, in UTF-8"));
}

bool is_named_json(std::string_view path) {
  return path.ends_with(".json") || path.ends_with(".jsonl") || path.ends_with(".ndjson");
}

/// `text` begins at the first character that is not white space.
FileLayout layout_of(std::string_view text, std::string_view path) {
  const size_t second = skip_space(text, 1);
  const char next = second < text.size() ? text[second] : ' ';
  if (text.front() == '[' && std::strchr("{[]\"", next) != nullptr) return FileLayout::json_array;
  if (text.front() == '{' && (next == '"' || next == '}')) return FileLayout::json_lines;
  // The content says nothing clear: a first line that is torn, or prose. Only here the name decides.
  return is_named_json(path) ? FileLayout::json_lines : FileLayout::plain_text;
}

/// Position after the string whose opening quote is at `at`, or the end when it is never closed.
size_t skip_string(std::string_view text, size_t at) {
  const char* const begin = text.data();
  for (size_t from = at + 1; from < text.size();) {
    const void* found = std::memchr(begin + from, '"', text.size() - from);
    if (found == nullptr) break;
    const auto quote = static_cast<size_t>(static_cast<const char*>(found) - begin);
    size_t first = quote;  // The run of backslashes in front: an even number leaves the quote a quote.
    while (first > from && begin[first - 1] == '\\') --first;
    from = quote + 1;
    if ((quote - first) % 2 == 0) return from;
  }
  return text.size();
}

/// Position of the ',' or ']' that ends the array element at `at`; the end of the text when there is none.
size_t skip_element(std::string_view text, size_t at) {
  int64_t depth = 0;
  while (at < text.size()) {
    switch (text[at]) {
      case '"':
        at = skip_string(text, at);
        continue;
      case '{':
      case '[':
        ++depth;
        break;
      case ',':
        if (depth == 0) return at;
        break;
      case ']':
        if (depth == 0) return at;
        [[fallthrough]];
      case '}':
        --depth;
        break;
      default:
        break;
    }
    ++at;
  }
  return at;
}

}  // namespace

std::string_view layout_name(FileLayout layout) {
  switch (layout) {
    case FileLayout::json_lines:
      return "JSON lines";
    case FileLayout::json_array:
      return "JSON array";
    case FileLayout::plain_text:
      break;
  }
  return "plain text";
}

RowFile::RowFile(std::string path) : path_(std::move(path)), file_(MappedFile::open(path_)) {
  const std::string_view text = file_.text();
  refuse_other_kinds(path_, text);
  const size_t first = skip_space(text, text.size() - without_bom(text).size());
  if (first == text.size()) throw DataError(path_ + ": no rows: the file is empty");
  layout_ = layout_of(text.substr(first), path_);
  if (layout_ == FileLayout::json_array)
    scan_array(first);
  else
    scan_lines();
  if (num_rows() == 0) throw DataError(path_ + ": no rows: the array is empty");
}

void RowFile::add_row(size_t start, int64_t line) {
  if (num_rows_++ % rows_a_mark == 0) marks_.push_back({start, line});
}

size_t RowFile::start_in_line(size_t at, size_t end) const {
  const size_t start = skip_space(file_.text().substr(0, end), at);
  // Leading white space is part of a line of prose, and no part of JSON.
  return start < end && layout_ == FileLayout::plain_text ? at : start;
}

size_t RowFile::next_start(size_t start) const {
  const std::string_view text = file_.text();
  if (layout_ == FileLayout::json_array) {
    size_t at = start;
    do at = skip_space(text, skip_element(text, at) + 1);
    while (text[at] == ',');  // a defect, told of by scan_array()
    return at;
  }
  for (size_t at = line_end(text, start) + 1;;) {
    const size_t end = line_end(text, at);
    if (const size_t found = start_in_line(at, end); found < end) return found;
    at = end + 1;
  }
}

size_t RowFile::start(int64_t index) const {
  size_t at = marks_[static_cast<size_t>(index / rows_a_mark)].start;
  for (int64_t i = 0; i < index % rows_a_mark; ++i) at = next_start(at);
  return at;
}

void RowFile::scan_lines() {
  const std::string_view text = file_.text();
  size_t at = text.size() - without_bom(text).size();
  for (int64_t line = 1; at < text.size(); ++line) {
    const size_t end = line_end(text, at);
    if (const size_t start = start_in_line(at, end); start < end) add_row(start, line);
    at = end + 1;
  }
}

void RowFile::scan_array(size_t open) {
  const std::string_view text = file_.text();
  LineCounter lines(text);
  size_t at = skip_space(text, open + 1);
  bool is_after_comma = false;
  while (true) {
    if (at == text.size()) {
      defects_.push_back({lines.line_at(at), "the array is not closed; is the file cut short?"});
      break;
    }
    if (text[at] == ',' || (text[at] == ']' && is_after_comma))
      defects_.push_back({lines.line_at(at), "a comma with no element beside it"});
    else if (text[at] != ']')
      add_row(at, lines.line_at(at));
    at = skip_element(text, at);
    if (at == text.size()) break;  // The last row itself is torn, and is refused as a row.
    if (text[at] == ']') {
      at = skip_space(text, at + 1);
      if (at < text.size()) defects_.push_back({lines.line_at(at), "text after the end of the array"});
      break;
    }
    is_after_comma = true;
    at = skip_space(text, at + 1);
  }
}

std::string_view RowFile::row(int64_t index) const {
  const std::string_view text = file_.text();
  const size_t begin = start(index);
  if (layout_ == FileLayout::plain_text) {
    size_t end = line_end(text, begin);
    if (end > begin && text[end - 1] == '\r') --end;
    return text.substr(begin, end - begin);
  }
  size_t end = layout_ == FileLayout::json_lines ? line_end(text, begin) : skip_element(text, begin);
  while (end > begin && is_space(text[end - 1])) --end;
  return text.substr(begin, end - begin);
}

int64_t RowFile::line(int64_t index) const {
  const Mark& mark = marks_[static_cast<size_t>(index / rows_a_mark)];
  return mark.line + count_lines(file_.text().substr(mark.start, start(index) - mark.start));
}

std::string RowFile::where(int64_t index) const { return text(path_, ":", line(index)); }

std::string_view RowFile::bytes() const { return file_.text(); }

}  // namespace duoka::data
