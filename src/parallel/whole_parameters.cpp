// SPDX-License-Identifier: Apache-2.0
#include "parallel/whole_parameters.h"

#include <sstream>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "duoka/comm/collectives.h"
#include "duoka/core/error.h"

namespace duoka::parallel {

namespace {

constexpr int tag = 0;
// What rank 0 says: the first character of its words.
const std::string ask = "?", failed = "!", done = ".";

void write(std::ostream& out, const std::vector<int64_t>& numbers) {
  out << ' ' << numbers.size();
  for (const int64_t number : numbers) out << ' ' << number;
}

std::vector<int64_t> read(std::istream& in) {
  size_t count = 0;
  in >> count;
  std::vector<int64_t> numbers(count);
  for (int64_t& number : numbers) in >> number;
  return numbers;
}

at::Tensor box_of(const at::Tensor& whole, const std::vector<int64_t>& offset,
                  const std::vector<int64_t>& shape) {
  at::Tensor box = whole;
  for (size_t dim = 0; dim < offset.size(); ++dim)
    box = box.narrow(static_cast<int64_t>(dim), offset[dim], shape[dim]);
  return box;
}

}  // namespace

WholeParameters::WholeParameters(std::vector<Piece> own, const comm::Group& world)
    : own_(std::move(own)), world_(world) {
  std::ostringstream lines;
  for (const Piece& piece : own_) {
    lines << piece.name << ' ' << static_cast<int>(piece.value.scalar_type());
    write(lines, piece.global_shape);
    write(lines, piece.offset);
    write(lines, piece.value.sizes().vec());
    lines << '\n';
  }
  const auto all = comm::all_gather_text(lines.str(), world);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    std::istringstream in(all[rank]);
    std::string name;
    for (int dtype = 0; in >> name >> dtype;) {
      Entry& entry = entries_[name];
      entry.dtype = static_cast<at::ScalarType>(dtype);
      entry.global_shape = read(in);
      Box box{static_cast<int>(rank), read(in), {}};
      box.shape = read(in);
      entry.boxes.push_back(std::move(box));
    }
  }
}

void WholeParameters::for_each_own(const std::string& name,
                                   const std::function<void(const at::Tensor&)>& visit) const {
  for (const Piece& piece : own_)
    if (piece.name == name) visit(piece.value);
}

at::Tensor WholeParameters::gather(const std::string& name, const Entry& entry) const {
  at::Tensor whole = at::empty(entry.global_shape, entry.dtype);
  std::vector<at::Tensor> own;
  for_each_own(name, [&](const at::Tensor& value) { own.push_back(value); });
  int64_t covered = 0;
  size_t next_own = 0;
  for (const Box& box : entry.boxes) {
    at::Tensor part;
    if (box.rank == world_.rank()) {
      part = own.at(next_own++);
    } else {
      part = at::empty(box.shape, entry.dtype);
      comm::start_receive(part, box.rank, tag, world_).wait();
    }
    box_of(whole, box.offset, box.shape).copy_(part);
    covered += part.numel();
  }
  if (covered != whole.numel())
    throw StateError("the ranks' pieces of " + name + " do not make up the whole");
  return whole;
}

void WholeParameters::lead(
    const std::function<void(const std::function<at::Tensor(const std::string&)>&)>& body) const {
  const at::NoGradGuard no_grad;
  const auto tell = [&](std::string words) { comm::broadcast_text(words, 0, world_); };
  try {
    body([&](const std::string& name) {
      const auto found = entries_.find(name);
      if (found == entries_.end()) throw StateError("no rank has a parameter " + name);
      tell(ask + name);
      return gather(name, found->second);
    });
  } catch (const CommError&) {
    throw;  // the others see it by themselves
  } catch (const std::exception& error) {
    tell(failed + std::string(error.what()));
    throw;
  }
  tell(done);
}

void WholeParameters::help() const {
  const at::NoGradGuard no_grad;
  for (std::string words;;) {
    comm::broadcast_text(words, 0, world_);
    if (words == done) return;
    const std::string kind = words.substr(0, 1), rest = words.substr(1);
    if (kind == failed) throw SystemError("rank 0 failed: " + rest);
    for_each_own(rest, [&](const at::Tensor& value) {
      comm::start_send(value.to(at::kCPU).contiguous(), 0, tag, world_).wait();
    });
  }
}

}  // namespace duoka::parallel
