// SPDX-License-Identifier: Apache-2.0
#include "parallel/row_publisher.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace duoka::parallel {

RowPublisher::RowPublisher(const std::vector<Parameter*>& parameters, comm::Group group)
    : group_(std::move(group)) {
  std::vector<at::Tensor> open;
  int64_t open_bytes = 0;
  const auto close = [&] {
    if (open.empty()) return;
    RowLayout layout(open, group_.size());
    buckets_.push_back({std::exchange(open, {}), std::move(layout)});
    open_bytes = 0;
  };
  for (const Parameter* parameter : parameters) {
    const at::Tensor& value = parameter->value;
    const bool fits = open.empty() || (open.front().scalar_type() == value.scalar_type() &&
                                       open.front().device() == value.device() && open_bytes < bucket_bytes);
    if (!fits) close();
    open.push_back(value);
    open_bytes += static_cast<int64_t>(value.nbytes());
  }
  close();
}

void RowPublisher::publish() const {
  // Two buckets at a time: one is sent while another is packed or unpacked.
  struct Sent {
    const Bucket* bucket;
    at::Tensor all;
    comm::Pending pending;
  };
  std::vector<Sent> sent;
  const auto receive = [&](Sent& one) {
    one.pending.wait();
    one.bucket->layout.unpack(one.all, one.bucket->values, group_.rank());
  };
  for (const Bucket& bucket : buckets_) {
    const auto options = bucket.values.front().options();
    at::Tensor own = at::zeros({bucket.layout.chunk()}, options);
    for (size_t i = 0; i < bucket.values.size(); ++i)
      bucket.layout.rows_in_chunk(own, i, group_.rank())
          .copy_(bucket.layout.rows(bucket.values[i], i, group_.rank()));
    at::Tensor all = at::empty({group_.size(), bucket.layout.chunk()}, options);
    comm::Pending pending = comm::start_all_gather_into(all, own, group_);
    sent.push_back({&bucket, std::move(all), std::move(pending)});
    if (sent.size() < 2) continue;
    receive(sent.front());
    sent.erase(sent.begin());
  }
  for (Sent& one : sent) receive(one);
}

}  // namespace duoka::parallel
