// SPDX-License-Identifier: Apache-2.0
#include "comm/report.h"

#include <sstream>

#include "duoka/core/text.h"

namespace duoka::comm {

namespace {

constexpr size_t max_block_bytes = size_t{60} << 10;

}  // namespace

std::string to_wire(const Report& report) {
  std::string block = report.block.substr(0, max_block_bytes);
  return text(report.nanoseconds, " ", report.is_echo ? 1 : 0, " ", block.size(), "\n", block);
}

std::optional<Report> from_wire(const std::string& bytes) {
  std::istringstream in(bytes);
  Report report;
  size_t size = 0;
  if (!(in >> report.nanoseconds >> report.is_echo >> size) || in.get() != '\n') return std::nullopt;
  const auto begin = static_cast<size_t>(in.tellg());
  if (bytes.size() - begin != size) return std::nullopt;
  report.block = bytes.substr(begin);
  return report;
}

}  // namespace duoka::comm
