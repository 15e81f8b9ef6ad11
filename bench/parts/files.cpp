// SPDX-License-Identifier: Apache-2.0
// Models out of the page cache, against a copy of the bytes of file and result; a checkpoint, against writing
// as many bytes and waiting for the disk.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fcntl.h>
#include <unistd.h>

#include "duoka/comm/group.h"
#include "duoka/core/error.h"
#include "duoka/model/decoder.h"
#include "duoka/train/checkpoint.h"
#include "duoka/train/optimizer.h"
#include "measured.h"

namespace duoka::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* folder_path = ".assets/smollm2-f32";
constexpr const char* gguf_path = ".assets/SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr double num_parameters = 134'515'008;

void add_load(const std::string& name, const fs::path& model, const fs::path& weights, at::ScalarType dtype) {
  const double bytes = file_bytes(weights) + num_parameters * static_cast<double>(c10::elementSize(dtype));
  const auto make = [=] {
    const model::LoadOptions options{.dtype = dtype, .log = Log(1)};
    return Step{.body = [=] { static_cast<void>(model::Decoder::load(model, options)); },
                .reference = copy_of(bytes)};
  };
  add({.name = "load/" + name + "/" + dtype_name(dtype), .make = make, .bytes = bytes});
}

/// A folder for a while, under runs/: /tmp may be memory.
class Scratch {
 public:
  explicit Scratch(const std::string& name)
      : path_(fs::path("runs") / (name + "-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// 16 matrices of a million numbers with AdamW's state: 192 MiB.
struct Trained {
  static constexpr int num_matrices = 16;
  static constexpr int64_t side = 1024;
  static constexpr double bytes = 3.0 * num_matrices * side * side * sizeof(float);

  std::vector<std::unique_ptr<Parameter>> parameters;
  std::vector<parallel::Slot> slots;

  Trained() {
    for (int i = 0; i < num_matrices; ++i) {
      parameters.push_back(std::make_unique<Parameter>(
          Parameter::whole("w" + std::to_string(i), at::rand({side, side}), true)));
      parallel::Slot slot;
      slot.parameter = parameters.back().get();
      slot.offset = {0, 0};
      slot.master = slot.parameter->value;
      slot.grad = at::rand({side, side});
      slots.push_back(std::move(slot));
    }
    train::make_adamw({})->prepare(slots);
    train::make_adamw({})->step(slots, 1e-3);
  }
};

void write_plainly(const fs::path& path, const at::Tensor& numbers) {
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  const char* data = static_cast<const char*>(numbers.const_data_ptr());
  size_t left = numbers.nbytes();
  while (file >= 0 && left > 0) {
    const ssize_t written = ::write(file, data, left);
    if (written <= 0) break;
    data += written;
    left -= static_cast<size_t>(written);
  }
  const bool is_good = file >= 0 && left == 0 && ::fsync(file) == 0;
  if (file >= 0) ::close(file);
  if (!is_good) throw SystemError("could not write " + path.string() + ": is the disk full?");
}

Step checkpoint_step() {
  const auto scratch = std::make_shared<Scratch>("bench-checkpoint");
  const auto trained = std::make_shared<Trained>();
  const at::Tensor numbers = at::rand(static_cast<int64_t>(Trained::bytes / sizeof(float)));
  train::RunState state;
  state.optimizer = "adamw";
  const auto clear = [=] {
    for (const auto& entry : fs::directory_iterator(scratch->path())) fs::remove_all(entry.path());
  };
  return {.body = [=] { train::save_checkpoint(scratch->path(), trained->slots, state, comm::Group()); },
          .prepare = clear,
          .reference = [=] { write_plainly(scratch->path() / "numbers", numbers); }};
}

}  // namespace

void add_files() {
  const fs::path weights = fs::path(folder_path) / "model.safetensors";
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    add_load("safetensors f32", folder_path, weights, dtype);
    add_load("gguf Q4_1", gguf_path, gguf_path, dtype);
  }
  add({.name = "checkpoint/write", .make = checkpoint_step, .bytes = Trained::bytes});
}

}  // namespace duoka::bench
