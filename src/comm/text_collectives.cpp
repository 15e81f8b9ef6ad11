// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <numeric>

#include "comm/wires.h"
#include "comm/work.h"
#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

// Text always goes over the CPU wires, also in a group that has NCCL: lengths first, then characters.

namespace duoka::comm {

namespace {

constexpr int64_t max_text_bytes = int64_t{64} << 20;

void check_length(int64_t bytes, const Group& group) {
  if (bytes <= max_text_bytes) return;
  throw StateError(text("text of ", bytes_text(bytes), " over axis '", group.axis(), "': at most ",
                        bytes_text(max_text_bytes), " can be sent"));
}

/// Runs one transfer to its end.
template <class Start>
void run(const Group& group, Start&& start) {
  Work(start(*group.wires()), Operation::text, group).wait();
}

at::Tensor bytes_of(const std::string& words, int64_t length) {
  at::Tensor bytes = at::zeros({length}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr<uint8_t>(), words.data(), words.size());
  return bytes;
}

std::string words_of(const at::Tensor& bytes, int64_t offset, int64_t length) {
  const uint8_t* begin = bytes.const_data_ptr<uint8_t>() + offset;
  return {begin, begin + length};
}

}  // namespace

void broadcast_text(std::string& words, int root, const Group& group) {
  if (root < 0 || root >= group.size())
    throw StateError(text("broadcast_text: there is no rank ", root, " of ", group.size()));
  if (group.size() == 1) return;
  const bool is_root = group.rank() == root;
  group.traffic().add(Operation::text, is_root ? static_cast<int64_t>(words.size()) : 0);
  // The root's length is checked on every rank after it has gone, so that none is left waiting.
  at::Tensor length = at::full({1}, static_cast<int64_t>(words.size()), at::kLong);
  run(group, [&](Wires& wires) { return wires.broadcast(length, root); });
  const int64_t num_bytes = length.item<int64_t>();
  check_length(num_bytes, group);
  if (num_bytes == 0) {
    words.clear();
    return;
  }
  at::Tensor bytes = is_root ? bytes_of(words, num_bytes) : at::empty({num_bytes}, at::kByte);
  run(group, [&](Wires& wires) { return wires.broadcast(bytes, root); });
  if (!is_root) words = words_of(bytes, 0, num_bytes);
}

std::vector<std::string> all_gather_text(const std::string& words, const Group& group) {
  if (group.size() == 1) return {words};
  group.traffic().add(Operation::text, static_cast<int64_t>(words.size()));
  const at::Tensor length = at::full({1}, static_cast<int64_t>(words.size()), at::kLong);
  at::Tensor lengths = at::empty({group.size()}, at::kLong);
  run(group, [&](Wires& wires) { return wires.all_gather(lengths, length); });
  const int64_t longest = lengths.max().item<int64_t>();
  check_length(longest * group.size(), group);
  std::vector<std::string> all(static_cast<size_t>(group.size()));
  if (longest == 0) return all;
  // Rows are padded to the longest: one collective whatever the lengths.
  const at::Tensor bytes = bytes_of(words, longest);
  at::Tensor rows = at::empty({group.size() * longest}, at::kByte);
  run(group, [&](Wires& wires) { return wires.all_gather(rows, bytes); });
  for (int64_t rank = 0; rank < group.size(); ++rank)
    all[static_cast<size_t>(rank)] = words_of(rows, rank * longest, lengths[rank].item<int64_t>());
  return all;
}

}  // namespace duoka::comm
