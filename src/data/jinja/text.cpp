// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/text.h"

#include <algorithm>
#include <utility>

namespace duoka::data::jinja {

Text::Text(std::string bytes, Mark mark) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) {
    runs_.push_back({bytes_.size(), mark});
  } else if (mark != Mark{}) {
    anchors_.push_back({0, mark});
  }
}

void Text::extend_run(size_t count, const Mark& mark) {
  if (count == 0) return;
  const size_t end = (runs_.empty() ? 0 : runs_.back().end) + count;
  if (!runs_.empty() && runs_.back().mark == mark) {
    runs_.back().end = end;
  } else {
    runs_.push_back({end, mark});
  }
}

void Text::append(std::string_view bytes, Mark mark) {
  bytes_.append(bytes);
  extend_run(bytes.size(), mark);
}

void Text::append(const Text& other, size_t begin, size_t end) {
  // An anchor at a cut belongs to what follows it, or to the last part.
  for (const Anchor& anchor : other.anchors_) {
    const bool is_inside = anchor.at >= begin && (anchor.at < end || end == other.size());
    if (is_inside) anchors_.push_back({size() + anchor.at - begin, anchor.mark});
  }
  if (begin >= end) return;
  bytes_.append(other.bytes_, begin, end - begin);
  for (auto run = other.run_at(begin); begin < end; ++run) {
    const size_t stop = std::min(run->end, end);
    extend_run(stop - begin, run->mark);
    begin = stop;
  }
}

Text Text::slice(size_t begin, size_t end) const {
  Text out;
  out.append(*this, begin, end);
  const Mark mark = mark_at(begin);
  // What is left of a text when all of it was trimmed still came from somewhere.
  if (begin >= end && out.anchors_.empty() && mark != Mark{}) out.anchors_.push_back({0, mark});
  return out;
}

std::vector<Text::Run>::const_iterator Text::run_at(size_t offset) const {
  return std::upper_bound(runs_.begin(), runs_.end(), offset,
                          [](size_t at, const Run& run) { return at < run.end; });
}

Mark Text::mark_at(size_t offset) const {
  if (runs_.empty()) return {};
  return offset < size() ? run_at(offset)->mark : runs_.back().mark;
}

void Text::mark_generation() {
  std::vector<Run> before;
  before.swap(runs_);
  size_t begin = 0;
  for (Run& run : before) {
    run.mark.is_generation = true;
    extend_run(run.end - begin, run.mark);
    begin = run.end;
  }
  for (Anchor& anchor : anchors_) anchor.mark.is_generation = true;
}

}  // namespace duoka::data::jinja
