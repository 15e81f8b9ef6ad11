// SPDX-License-Identifier: Apache-2.0
#include "duoka/parallel/tensor_axis.h"

#include <algorithm>
#include <numeric>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::parallel {

namespace {

/// How rows of several ranks lie in a collective's buffer, which has equally many for each: rank r's begin at
/// r * most.
struct Places {
  const std::vector<int64_t>& counts;
  int64_t most = std::ranges::max(counts);
  int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});

  int64_t num_places() const { return most * static_cast<int64_t>(counts.size()); }
  /// Whether the rows lie in one piece, what is empty being at the end: so it is for shares of tokens.
  bool is_dense() const {
    int64_t begin = 0;
    for (size_t r = 0; r < counts.size(); ++r) {
      if (counts[r] > 0 && begin != most * static_cast<int64_t>(r)) return false;
      begin += counts[r];
    }
    return true;
  }
};

at::Tensor rows_like(const at::Tensor& x, int64_t num_rows) {
  auto shape = x.sizes().vec();
  shape[0] = num_rows;
  return at::empty(shape, x.options());
}

/// [total, ...] -> [num_places, ...]; places that no rank has are zero.
at::Tensor spread(const at::Tensor& x, const Places& places) {
  at::Tensor out = rows_like(x, places.num_places()).zero_();
  int64_t begin = 0;
  for (size_t r = 0; r < places.counts.size(); begin += places.counts[r], ++r)
    out.narrow(0, static_cast<int64_t>(r) * places.most, places.counts[r])
        .copy_(x.narrow(0, begin, places.counts[r]));
  return out;
}

/// The reverse.
at::Tensor close_up(const at::Tensor& x, const Places& places) {
  if (places.is_dense()) return x.narrow(0, 0, places.total);
  std::vector<at::Tensor> parts;
  for (size_t r = 0; r < places.counts.size(); ++r)
    parts.push_back(x.narrow(0, static_cast<int64_t>(r) * places.most, places.counts[r]));
  return at::cat(parts);
}

class GroupAxis final : public model::TensorAxis {
 public:
  explicit GroupAxis(comm::Group group) : group_(std::move(group)) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }

  at::Tensor gather_rows(const at::Tensor& x, const std::vector<int64_t>& counts) const override {
    const Places places{counts};
    check(x, own(counts), counts);
    at::Tensor in = x.contiguous();
    if (in.size(0) < places.most) {
      in = rows_like(x, places.most).zero_();
      in.narrow(0, 0, x.size(0)).copy_(x);
    }
    at::Tensor out = rows_like(x, places.num_places());
    comm::all_gather_into(out, in, group_);
    return close_up(out, places);
  }

  at::Tensor scatter_sum_rows(const at::Tensor& x, const std::vector<int64_t>& counts) const override {
    const Places places{counts};
    check(x, places.total, counts);
    const at::Tensor in = places.total == places.num_places() ? x.contiguous() : spread(x, places);
    at::Tensor out = rows_like(x, places.most);
    comm::reduce_scatter_into(out, in, group_);
    return out.narrow(0, 0, own(counts));
  }

  void sum_(at::Tensor& x) const override { comm::all_reduce(x, comm::Op::sum, group_); }
  void max_(at::Tensor& x) const override { comm::all_reduce(x, comm::Op::max, group_); }

 private:
  int64_t own(const std::vector<int64_t>& counts) const { return counts.at(static_cast<size_t>(rank())); }
  void check(const at::Tensor& x, int64_t wanted, const std::vector<int64_t>& counts) const {
    if (x.size(0) != wanted || static_cast<int>(counts.size()) != size())
      throw StateError(text("tensor axis: ", x.size(0), " rows on rank ", rank(), " of ", size(), "; wanted ",
                            wanted, ", and ", counts.size(), " counts were given"));
  }

  comm::Group group_;
};

}  // namespace

std::shared_ptr<const model::TensorAxis> make_tensor_axis(const comm::Group& group) {
  if (group.size() == 1) return model::solo_tensor_axis();
  return std::make_shared<const GroupAxis>(group);
}

}  // namespace duoka::parallel
