// SPDX-License-Identifier: Apache-2.0
#include "duoka/cli/doctor.h"

#include <cstdlib>
#include <iomanip>
#include <sstream>
#include <vector>

#include <ATen/Context.h>
#include <net/if.h>

#include "cli/machine.h"
#include "cli/nvml.h"
#include "cli/versions.h"
#include "cli/wire_check.h"
#include "duoka/comm/world.h"
#include "duoka/core/error.h"
#include "duoka/core/text.h"

namespace duoka::cli {

namespace {

constexpr int64_t gibibyte = int64_t{1} << 30;
/// Below these a small model with its checkpoints is in doubt.
constexpr int64_t low_memory_bytes = 2 * gibibyte;
constexpr int64_t low_disk_bytes = 2 * gibibyte;

/// The report while it is written, and what has to be said at its end.
class Report final {
 public:
  /// `columns`: longest line, 0 for any.
  Report(std::ostream& out, int columns)
      : out_(out), columns_(columns > 0 ? static_cast<size_t>(columns) : std::string::npos) {}

  void section(const std::string& title) { out_ << "\n" << wrapped(title, 0, columns_) << "\n"; }
  void row(const std::string& label, const std::string& value) {
    out_ << "  " << std::left << std::setw(14) << label << wrapped(value, 16, columns_) << "\n";
    out_.flush();  // what comes next may take a while
  }
  /// Training cannot run until this is done.
  void must(std::string what) { musts_.push_back(std::move(what)); }
  /// Training runs, but could be better or sooner in trouble.
  void advise(std::string what) { advice_.push_back(std::move(what)); }

  int conclude(const std::string& good_news) {
    section("result");
    out_ << "  " << (musts_.empty() ? good_news : std::string("training cannot run here yet")) << "\n";
    for (const std::string& what : musts_) out_ << "  to do:    " << wrapped(what, 12, columns_) << "\n";
    for (const std::string& what : advice_) out_ << "  consider: " << wrapped(what, 12, columns_) << "\n";
    return musts_.empty() ? 0 : 1;
  }

 private:
  std::ostream& out_;
  size_t columns_;
  std::vector<std::string> musts_;
  std::vector<std::string> advice_;
};

std::string or_absent(const std::string& version) {
  return version.empty() ? "not there (needed for cards only)" : version;
}

/// Cards this build can compute on; 0 in a CPU build.
int num_usable_cards() {
  return at::globalContext().hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0;
}

void report_cards(Report& report, int num_usable) {
  const Cards found = ask_driver();
  report.section("cards");
  if (!found.trouble.empty()) {
    report.row("driver", found.trouble);
    return;
  }
  report.row("driver", found.driver_version);
  for (size_t i = 0; i < found.cards.size(); ++i) {
    const Card& card = found.cards[i];
    report.row(text("card ", i), text(card.name, ", ", bytes_text(card.total_bytes), ", ",
                                      bytes_text(card.free_bytes), " free"));
  }
  if (!found.links.empty()) report.row("links", found.links);
  report.row("usable", text(num_usable, " of ", found.cards.size(), " by this build"));
  if (!found.cards.empty() && num_usable == 0)
    report.advise("use the cards: build with the full torch wheel, cmake --preset cuda");
}

void report_libraries(Report& report) {
  const Versions versions = find_versions();
  report.section("libraries");
  report.row("libtorch", text(versions.libtorch, ", ", at::globalContext().hasCUDA() ? "with" : "without",
                              " CUDA in this build, CPU kernels ", versions.cpu_capability));
  report.row("CUDA", or_absent(versions.cuda));
  report.row("cuDNN", or_absent(versions.cudnn));
  report.row("NCCL", or_absent(versions.nccl));
  report.row("Gloo", "in libtorch");
}

void report_machine(Report& report, const DoctorOptions& options) {
  const Machine machine = look_at_machine();
  report.section("machine");
  report.row("cores", text(machine.usable_cores, " usable (machine ", machine.num_cores, ", affinity ",
                           machine.allowed_cores, ")"));
  const std::string limit =
      machine.limit_bytes > 0 ? text(", limited to ", bytes_text(machine.limit_bytes)) : "";
  report.row("memory", text(bytes_text(machine.total_bytes), limit, ", ", bytes_text(machine.available_bytes),
                            " available"));
  if (machine.available_bytes < low_memory_bytes)
    report.advise(text("free memory: ", bytes_text(machine.available_bytes),
                       " is little; close other programs, or raise ", "the container's limit"));
  const int64_t disk = free_disk_bytes(options.output_dir);
  report.row("disk", text(disk < 0 ? "unknown" : bytes_text(disk), " free in ", options.output_dir));
  if (!is_writable(options.output_dir))
    report.must(text("no files can be made in '", options.output_dir,
                     "'; choose another output_dir, or correct its rights"));
  else if (disk >= 0 && disk < low_disk_bytes)
    report.advise(
        text("free disk: ", bytes_text(disk), " may not hold the checkpoints; choose another output_dir"));
}

/// What of the environment ranks would stumble over.
void report_environment(Report& report) {
  report.section("environment");
  try {
    const comm::World world = comm::World::from_environment();
    report.row("ranks", world.launcher == comm::Launcher::none
                            ? "not started by a launcher"
                            : text("rank ", world.rank, " of ", world.size, ", started by ",
                                   comm::launcher_name(world.launcher)));
  } catch (const ConfigError& error) {
    report.row("ranks", "cannot be told from the environment");
    report.must(error.what());
  }
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0' && if_nametoindex(interface) == 0)
    report.must(text("GLOO_SOCKET_IFNAME = '", interface,
                     "' names no network interface of this machine; correct it, or unset it"));
}

std::string rate_text(double megabytes_a_second) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(0) << megabytes_a_second << " MB/s";
  return out.str();
}

std::string latency_text(double seconds) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(0) << seconds * 1e6 << " us";
  return out.str();
}

void report_wires(Report& report, bool with_nccl, int num_usable) {
  report.section(
      text("all-reduce, ", wire_check_ranks, " ranks of this machine over ", with_nccl ? "NCCL" : "Gloo"));
  if (with_nccl && num_usable < wire_check_ranks) {
    report.row("not tried",
               text("needs ", wire_check_ranks, " cards that this build can use, has ", num_usable));
    report.must("use backend=gloo here, or a CUDA build (cmake --preset cuda) on a machine with two cards");
    return;
  }
  const WireCheck check = check_wires(with_nccl);
  if (!check.trouble.empty()) {
    report.row("failed", check.trouble);
    report.must(
        with_nccl
            ? "make the all-reduce above work: NCCL_DEBUG=INFO tells more; or train with Gloo, on the CPU"
            : "make the all-reduce above work: ranks must be able to reach each other on 127.0.0.1");
    return;
  }
  report.row("8 bytes", latency_text(check.small_seconds));
  report.row("64 MiB", rate_text(check.megabytes_a_second()));
}

bool wants_nccl(const DoctorOptions& options, int num_usable) {
  if (options.backend != "auto" && options.backend != "gloo" && options.backend != "nccl")
    throw ConfigError(text("backend '", options.backend, "' is not known; use auto, gloo or nccl"));
  return options.backend == "nccl" || (options.backend == "auto" && num_usable >= wire_check_ranks);
}

}  // namespace

int doctor(std::ostream& out, const DoctorOptions& options, int columns) {
  const int num_usable = num_usable_cards();
  const bool with_nccl = wants_nccl(options, num_usable);
  Report report(out, columns);
  out << "duoka doctor: what this machine has for training\n";
  report_cards(report, num_usable);
  report_libraries(report);
  report_machine(report, options);
  report_environment(report);
  report_wires(report, with_nccl, num_usable);
  return report.conclude(num_usable > 0 ? text("training can run here, on ", counted(num_usable, "card"))
                                        : "training can run here, on the CPU");
}

}  // namespace duoka::cli
