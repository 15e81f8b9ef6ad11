// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "duoka/comm/group.h"

namespace duoka::parallel {

/// A box of a tensor, as some rank has it.
struct Piece {
  std::string name;
  std::vector<int64_t> global_shape;
  std::vector<int64_t> offset;
  at::Tensor value;  ///< The numbers; its shape is the box's.
};

/// Who has which box of which tensor, and the way to one whole tensor on rank 0. Point to point: nothing is
/// sent twice, and only one tensor is whole at a time.
class WholeParameters final {
 public:
  /// `own`: this rank's pieces; together the ranks' pieces cover each tensor once. Collective.
  WholeParameters(std::vector<Piece> own, const comm::Group& world);

  /// On rank 0, while the others help(): see Engine::with_whole_parameters().
  void lead(const std::function<void(const std::function<at::Tensor(const std::string&)>&)>& body) const;
  /// On the other ranks: sends what rank 0 asks for until it is done. Throws SystemError when it failed.
  void help() const;

 private:
  struct Box {
    int rank = 0;
    std::vector<int64_t> offset, shape;
  };
  struct Entry {
    std::vector<int64_t> global_shape;
    at::ScalarType dtype = at::kFloat;
    std::vector<Box> boxes;
  };
  /// Calls visit(value) for this rank's pieces of that name, in the order in which they were given.
  void for_each_own(const std::string& name, const std::function<void(const at::Tensor&)>& visit) const;
  at::Tensor gather(const std::string& name, const Entry& entry) const;

  std::vector<Piece> own_;
  comm::Group world_;
  std::map<std::string, Entry> entries_;
};

}  // namespace duoka::parallel
