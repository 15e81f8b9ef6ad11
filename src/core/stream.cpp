// SPDX-License-Identifier: Apache-2.0
#include "duoka/core/stream.h"

#include <algorithm>
#include <string>

#include <ATen/ops/empty.h>

#include "duoka/core/error.h"

namespace duoka {

namespace {

int64_t total_tokens(std::span<const RowView> rows) {
  int64_t total = 0;
  for (const RowView& row : rows) {
    if (row.ids.empty() || row.ids.size() != row.labels.size())
      throw StateError("make_stream: a row has " + std::to_string(row.ids.size()) + " ids and " +
                       std::to_string(row.labels.size()) + " labels; wanted the same number, at least 1");
    total += static_cast<int64_t>(row.ids.size());
  }
  return total;
}

}  // namespace

Stream make_stream(std::span<const RowView> rows, at::Device device) {
  const int64_t n = total_tokens(rows);
  Stream stream;
  stream.ids = at::empty({n}, at::kLong);
  stream.targets = at::empty({n}, at::kLong);
  stream.positions = at::empty({n}, at::kLong);
  auto* ids = stream.ids.mutable_data_ptr<int64_t>();
  auto* targets = stream.targets.mutable_data_ptr<int64_t>();
  auto* positions = stream.positions.mutable_data_ptr<int64_t>();

  std::vector<int64_t> trained;
  stream.segment_offsets.push_back(0);
  int64_t at = 0;
  for (const RowView& row : rows) {
    const auto length = static_cast<int64_t>(row.ids.size());
    for (int64_t i = 0; i < length; ++i, ++at) {
      ids[at] = row.ids[static_cast<size_t>(i)];
      positions[at] = i;
      targets[at] = i + 1 < length ? row.labels[static_cast<size_t>(i + 1)] : ignore_index;
      if (targets[at] != ignore_index) trained.push_back(at);
    }
    stream.segment_offsets.push_back(at);
    stream.segment_keys.push_back(row.key);
    stream.max_segment = std::max(stream.max_segment, length);
  }

  stream.num_trained = static_cast<int64_t>(trained.size());
  stream.trained = at::empty({stream.num_trained}, at::kLong);
  std::copy(trained.begin(), trained.end(), stream.trained.mutable_data_ptr<int64_t>());
  stream.segments = at::empty({stream.num_segments() + 1}, at::kInt);
  std::transform(stream.segment_offsets.begin(), stream.segment_offsets.end(),
                 stream.segments.mutable_data_ptr<int32_t>(),
                 [](int64_t o) { return static_cast<int32_t>(o); });
  for (at::Tensor* tensor :
       {&stream.ids, &stream.targets, &stream.positions, &stream.trained, &stream.segments})
    *tensor = tensor->to(device);
  return stream;
}

}  // namespace duoka
