// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_table.h"

#include <algorithm>
#include <cstdio>

#include "duoka/core/text.h"

namespace duoka::cli {

namespace {

using parallel::MemoryEstimate;
using parallel::RankEstimate;
using parallel::TrafficEstimate;

constexpr size_t label_width = 26, number_width = 10;
constexpr size_t most_columns = 5;  // that 80 hold beside a label

std::string left(const std::string& words, size_t width) {
  return words + std::string(words.size() < width ? width - words.size() : 1, ' ');
}
std::string right(const std::string& words, size_t width) {
  return std::string(words.size() < width ? width - words.size() : 0, ' ') + words;
}

/// Three digits that matter, and no more than two places.
std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : "%.2f", value);
  return buffer;
}
std::string gib(double bytes) { return number(bytes / static_cast<double>(int64_t{1} << 30)); }

struct MemoryRow {
  const char* label;
  int64_t MemoryEstimate::*bytes;
};
constexpr MemoryRow memory_rows[] = {
    {"parameters", &MemoryEstimate::parameters},      {"gradients", &MemoryEstimate::gradients},
    {"optimizer state", &MemoryEstimate::optimizer},  {"activations", &MemoryEstimate::activations},
    {"gathered layers", &MemoryEstimate::gathered},   {"gradients on their way", &MemoryEstimate::sending},
    {"while a layer works", &MemoryEstimate::working}};

std::string layers_text(const RankEstimate& rank) {
  if (rank.layers.size() > 1) return counted(static_cast<int64_t>(rank.layers.size()), "piece");
  const auto [first, last] = rank.layers.front();
  return last == first + 1 ? text(first) : text(first, "-", last - 1);
}

/// Places of the pipeline to show: all, or the first two, the fullest and the last two.
std::vector<size_t> places_shown(const parallel::Estimate& estimate) {
  const size_t count = estimate.ranks.size();
  std::vector<size_t> places;
  for (size_t i = 0; i < count; ++i) {
    const bool is_end = i < 2 || i + 2 >= count;
    if (count <= most_columns || is_end || &estimate.ranks[i] == &fullest(estimate)) places.push_back(i);
  }
  return places;
}

void print_memory(std::ostream& out, const parallel::Estimate& estimate) {
  const auto places = places_shown(estimate);
  const auto row = [&](const std::string& label, const auto& cell) {
    std::string line = left("  " + label, label_width);
    for (const size_t place : places) line += right(cell(estimate.ranks[place]), number_width);
    out << line << "\n";
  };
  std::string head = left("memory of a card, GiB", label_width);
  if (estimate.ranks.size() > 1)
    for (const size_t place : places) head += right(text("place ", place + 1), number_width);
  out << head.substr(0, head.find_last_not_of(' ') + 1) << "\n";
  if (estimate.ranks.size() > 1) row("layers", layers_text);
  for (const auto& [label, bytes] : memory_rows) {
    const auto value = [bytes = bytes](const RankEstimate& rank) { return rank.memory.*bytes; };
    if (std::ranges::any_of(estimate.ranks, [&](const RankEstimate& rank) { return value(rank) > 0; }))
      row(label, [&](const RankEstimate& rank) { return gib(static_cast<double>(value(rank))); });
  }
  row("together, about",
      [](const RankEstimate& rank) { return gib(static_cast<double>(rank.memory.total())); });
}

std::string what_text(const TrafficEstimate& traffic) {
  std::string name = comm::operation_name(traffic.operation);
  std::ranges::replace(name, '_', '-');
  return text(traffic.what, ", ", name);
}

void print_traffic(std::ostream& out, const parallel::Estimate& estimate, const Cluster& cluster) {
  const RankEstimate& rank = busiest(estimate, cluster);
  if (rank.traffic.empty()) return;
  constexpr size_t what_width = 28, over_width = 22, calls_width = 8;
  out << "\n"
      << left("sent by a card in an update", what_width) << left("over", over_width)
      << right("calls", calls_width) << right("GiB", number_width)
      << (cluster.has_speeds() ? right("seconds", number_width) : "") << "\n";
  for (const TrafficEstimate& traffic : rank.traffic) {
    out << left("  " + what_text(traffic), what_width)
        << left(text(traffic.num_ranks, " ", traffic.axis), over_width)
        << right(count_text(traffic.calls), calls_width) << right(gib(traffic.wire_bytes()), number_width);
    if (cluster.has_speeds()) out << right(number(cluster.seconds(traffic)), number_width);
    out << (cluster.num_hosts > 1 && !cluster.is_inside(traffic) ? " *" : "") << "\n";
  }
  const Sent sent = sent_by(rank, cluster);
  const auto sum = [&](const std::string& label, double bytes, double seconds) {
    out << left("  " + label, what_width + over_width + calls_width) << right(gib(bytes), number_width)
        << (cluster.has_speeds() ? right(number(seconds), number_width) : "") << "\n";
  };
  sum(cluster.num_hosts > 1 ? "together inside a host" : "together", sent.inside, sent.inside_seconds);
  if (cluster.num_hosts > 1) sum("together between hosts *", sent.between, sent.between_seconds);
}

std::string percent(double share) { return number(100 * share) + " %"; }

void print_row(std::ostream& out, const std::vector<std::string>& cells) {
  constexpr size_t widths[] = {5, 7, 8, 5, 5, 5, 7, 8, 8, 8, 8};
  for (size_t i = 0; i < cells.size(); ++i) out << right(cells[i], widths[i]);
  out << "\n";
}

}  // namespace

void print_estimate(std::ostream& out, const parallel::Estimate& estimate, const Cluster& cluster) {
  print_memory(out, estimate);
  print_traffic(out, estimate, cluster);
  if (estimate.ranks.size() > 1)
    out << "\nidle in the pipeline: " << percent(estimate.idle_share()) << " of the cards' time\n";
}

void print_candidates(std::ostream& out, const std::vector<Candidate>& candidates, const Cluster& cluster,
                      int64_t memory_bytes, size_t most) {
  const std::string limit = gib(static_cast<double>(memory_bytes)) + " GiB a card";
  if (fits(candidates.front(), memory_bytes))
    out << counted(static_cast<int64_t>(candidates.size()), "layout")
        << (candidates.size() == 1 ? " fits into " : " fit into ") << limit
        << (candidates.size() > most ? text("; the best ", most) : "") << "\n";
  else
    out << "no layout fits into " << limit << "; the one that needs least:\n";
  print_row(
      out, {"data", "tensor", "context", "pipe", "ZeRO", "of", "accum.", "GiB", "between", "inside", "idle"});
  for (const Candidate& candidate : candidates) {
    if (most-- == 0) break;
    const parallel::Plan& plan = candidate.estimate.plan;
    const Sent sent = sent_by(busiest(candidate.estimate, cluster), cluster);
    const auto memory = static_cast<double>(fullest(candidate.estimate).memory.total());
    print_row(out, {text(plan.data), text(plan.tensor), text(plan.context), text(plan.pipeline),
                    text(plan.zero_stage), plan.zero_stage > 0 ? text(plan.shard * plan.context) : "-",
                    text(candidate.accumulation), gib(memory) + (candidate.recompute ? "+" : " "),
                    gib(sent.between), gib(sent.inside), percent(candidate.estimate.idle_share())});
  }
  out << "\nof: cards that share the state, zero_shard_size x context.\nGiB: memory of the fullest card.\n+: "
         "with gradient_checkpointing."
         "\nbetween, inside: GiB a card sends in an update between hosts, inside its own."
         "\nidle: in the pipeline, of the cards' time.\n";
}

}  // namespace duoka::cli
