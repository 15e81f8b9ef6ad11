// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "duoka/data/chat_template.h"

namespace duoka::data::jinja {

/// Where a stretch of text came from.
struct Mark {
  int32_t message = -1;
  Words words = Words::of_template;
  bool is_generation = false;

  bool operator==(const Mark&) const = default;
};

/// A string of the interpreter: bytes plus where each of them came from, as runs of equal marks. What is
/// cut, joined or changed from texts keeps their marks. An empty text that came from somewhere leaves an
/// anchor: the place where it was printed can be told.
class Text {
 public:
  struct Run {
    size_t end;  ///< Offset behind its last byte; it begins where the run before ends.
    Mark mark;
  };
  struct Anchor {
    size_t at;
    Mark mark;
  };

  Text() = default;
  Text(std::string bytes, Mark mark = {});

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool is_empty() const { return bytes_.empty(); }
  const std::vector<Run>& runs() const { return runs_; }
  /// Ascending.
  const std::vector<Anchor>& anchors() const { return anchors_; }

  void append(std::string_view bytes, Mark mark = {});
  void append(const Text& other) { append(other, 0, other.size()); }
  /// Appends bytes [begin, end) of `other`.
  void append(const Text& other, size_t begin, size_t end);

  Text slice(size_t begin, size_t end) const;
  /// Mark of the byte at `offset`; the last byte's for offset == size(), the template's own if empty.
  Mark mark_at(size_t offset) const;
  /// Every byte becomes part of a generation block.
  void mark_generation();

 private:
  std::vector<Run>::const_iterator run_at(size_t offset) const;
  void extend_run(size_t count, const Mark& mark);

  std::string bytes_;
  std::vector<Run> runs_;
  std::vector<Anchor> anchors_;
};

}  // namespace duoka::data::jinja
