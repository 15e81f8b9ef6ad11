// SPDX-License-Identifier: Apache-2.0
#include "duoka/train/metrics.h"

#include <cmath>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "duoka/core/error.h"
#include "duoka/core/files.h"
#include "duoka/core/text.h"
#include "duoka/io/json.h"
#include "train/append_file.h"

namespace duoka::train {

namespace {

using io::Json;

/// "0:01:23", hours always, as LLaMA-Factory writes it.
std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%lld:%02d:%02d", static_cast<long long>(whole / 3600),
                static_cast<int>(whole / 60 % 60), static_cast<int>(whole % 60));
  return buffer;
}

double percentage(const StepReport& report) {
  if (report.total_steps <= 0) return 0;
  return std::round(1e4 * static_cast<double>(report.step) / static_cast<double>(report.total_steps)) / 100;
}

Json position(const StepReport& report) {
  return {{"current_steps", report.step}, {"total_steps", report.total_steps}};
}

void add_times(Json& line, const StepReport& report) {
  line["epoch"] = report.epoch;
  line["percentage"] = percentage(report);
  line["elapsed_time"] = clock_text(report.elapsed_seconds);
  line["remaining_time"] = clock_text(report.remaining_seconds());
}

void merge_into(const std::filesystem::path& path, const Results& values) {
  Json object = Json::object();
  if (std::filesystem::exists(path)) {
    object = io::read_json_file(path);
    if (!object.is_object())
      throw FormatError(path.string() + ": wanted a JSON object of results; remove the file");
  }
  for (const auto& [name, value] : values) object[name] = value;
  write_file_atomically(path, object.dump(4) + "\n");
}

}  // namespace

TrainerLog::TrainerLog(const std::filesystem::path& output_dir, int64_t resume_step)
    : path_(output_dir / "trainer_log.jsonl"),
      descriptor_(open_lines_up_to(path_, "current_steps", resume_step)) {}

TrainerLog::~TrainerLog() { ::close(descriptor_); }

void TrainerLog::write(const StepReport& report) {
  Json line = position(report);
  line["loss"] = report.loss;
  line["lr"] = report.learning_rate;
  line["grad_norm"] = report.grad_norm;
  add_times(line, report);
  line["tokens_per_second"] = std::round(report.tokens_per_second * 10) / 10;
  line["total_tokens"] = report.total_tokens;
  append(descriptor_, line.dump() + "\n", path_);
}

void TrainerLog::write_evaluation(const StepReport& report, double eval_loss) {
  Json line = position(report);
  line["eval_loss"] = eval_loss;
  add_times(line, report);
  append(descriptor_, line.dump() + "\n", path_);
}

void write_results(const std::filesystem::path& output_dir, const std::string& split, const Results& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) object[name] = value;
  write_file_atomically(output_dir / (split + "_results.json"), object.dump(4) + "\n");
  merge_into(output_dir / "all_results.json", values);
}

Results speed_results(const std::string& split, double seconds, int64_t num_samples, int64_t num_steps) {
  const auto rate = [&](int64_t count) {
    return seconds > 0 ? std::round(1000 * static_cast<double>(count) / seconds) / 1000 : 0;
  };
  return {{split + "_runtime", std::round(seconds * 1e4) / 1e4},
          {split + "_samples_per_second", rate(num_samples)},
          {split + "_steps_per_second", rate(num_steps)}};
}

}  // namespace duoka::train
