// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "duoka/core/files.h"

namespace duoka::data {

/// How a data file separates its rows. Told from the content, never from the file's name.
enum class FileLayout {
  json_lines,  ///< A JSON value a line.
  json_array,  ///< One array whose elements are the rows, over any number of lines.
  plain_text,  ///< Anything else that is text: each line that is not blank is a row.
};

/// "JSON lines", "JSON array", "plain text".
std::string_view layout_name(FileLayout layout);

/// A fault of the file that belongs to no row: an array that is never closed, an empty element.
struct FileDefect {
  int64_t line = 0;
  std::string reason;
};

/// A data file cut into rows, without parsing them. The file is mapped: memory held is 16 bytes for 64 rows.
///
/// A byte order mark and CRLF line ends are not part of any row; blank lines are not rows but count as
/// lines. A row may still be bad JSON: that is for whoever parses it to say. Immutable after construction
/// and safe to read from many threads.
class RowFile {
 public:
  /// Maps and scans the file at about memory speed.
  /// Throws SystemError when it cannot be read; DataError when it has no rows, or is a known kind that is
  /// not text (Parquet, Arrow, gzip, zip, UTF-16), by name.
  explicit RowFile(std::string path);

  const std::string& path() const { return path_; }
  FileLayout layout() const { return layout_; }
  int64_t num_rows() const { return num_rows_; }
  /// Text of row `index`, without surrounding white space (JSON) or line end (plain text). Valid as long
  /// as this object lives. Costs a scan of at most 64 rows, as line() does.
  std::string_view row(int64_t index) const;
  /// Line on which row `index` begins, from 1.
  int64_t line(int64_t index) const;
  /// "path:line", for messages.
  std::string where(int64_t index) const;
  const std::vector<FileDefect>& defects() const { return defects_; }
  /// The whole file, for hashing.
  std::string_view bytes() const;

 private:
  struct Mark {
    size_t start;  ///< Offset of the row.
    int64_t line;
  };
  void scan_lines();
  void scan_array(size_t open);
  void add_row(size_t start, int64_t line);
  size_t start(int64_t index) const;
  /// Start of the row after the one at `start`; there is one.
  size_t next_start(size_t start) const;
  /// Start of the line's row, which is not blank, in a line that begins at `at`; the line's end when it is.
  size_t start_in_line(size_t at, size_t end) const;

  std::string path_;
  MappedFile file_;
  FileLayout layout_ = FileLayout::json_lines;
  int64_t num_rows_ = 0;
  std::vector<Mark> marks_;  ///< Of every 64th row; the rows between are counted when asked for.
  std::vector<FileDefect> defects_;
};

}  // namespace duoka::data
