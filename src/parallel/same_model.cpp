// SPDX-License-Identifier: Apache-2.0
#include "parallel/same_model.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "core/content_hash.h"
#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::parallel {

namespace {

std::string describe(const std::vector<Parameter*>& parameters) {
  std::ostringstream out;
  for (const Parameter* parameter : parameters)
    out << parameter->name << ' ' << parameter->value.sizes() << ' ' << parameter->value.scalar_type()
        << (parameter->is_trainable ? " trainable" : " frozen") << '\n';
  return out.str();
}

/// The first line in which `mine` and `other` differ, of each.
std::pair<std::string, std::string> first_difference(const std::string& mine, const std::string& other) {
  std::istringstream a(mine), b(other);
  std::string line_a, line_b;
  while (true) {
    const bool has_a = static_cast<bool>(std::getline(a, line_a));
    const bool has_b = static_cast<bool>(std::getline(b, line_b));
    if (!has_a) line_a = "nothing more";
    if (!has_b) line_b = "nothing more";
    if (line_a != line_b || !has_a) return {line_a, line_b};
  }
}

/// Of the numbers of `values`, which lie in this processor's memory.
std::string digest(const std::vector<at::Tensor>& values) {
  ContentHash hash;
  for (const at::Tensor& value : values) hash.add(value.const_data_ptr(), value.nbytes());
  const auto [low, high] = hash.value();
  return text(high, " ", low);
}

/// Ranks that have read the same files and drawn from the same seed hold the same numbers already.
bool are_same(const std::vector<at::Tensor>& values, const comm::Group& group) {
  if (values.empty() || !values.front().is_cpu()) return false;
  const auto all = comm::all_gather_text(digest(values), group);
  return std::ranges::all_of(all, [&](const std::string& one) { return one == all.front(); });
}

}  // namespace

void check_same_model(const std::vector<Parameter*>& parameters, const comm::Group& group) {
  if (group.size() == 1) return;
  const auto all = comm::all_gather_text(describe(parameters), group);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto [first, other] = first_difference(all[0], all[rank]);
    throw StateError(text("the ranks hold different models: rank 0 has \"", first, "\" where rank ", rank,
                          " has \"", other, "\"; start every rank with the same options and files"));
  }
}

void share_trainable_values(const std::vector<Parameter*>& parameters, const comm::Group& group) {
  if (group.size() == 1) return;
  std::vector<Parameter*> shared;
  std::vector<at::Tensor> values;
  for (Parameter* parameter : parameters) {
    // One whose rows were kept already has no numbers here; every rank has read them from the same file.
    if (!parameter->is_trainable || parameter->is_released()) continue;
    shared.push_back(parameter);
    values.push_back(parameter->value.contiguous());
  }
  if (are_same(values, group)) return;
  for (size_t i = 0; i < shared.size(); ++i) {
    comm::broadcast(values[i], 0, group);
    if (!values[i].is_same(shared[i]->value)) shared[i]->value.copy_(values[i]);
  }
}

}  // namespace duoka::parallel
