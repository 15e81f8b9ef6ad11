// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/cli_files.h"
#include "support/two_hosts.h"

namespace duoka::testing {

/// Runs that spread over two hosts; skipped, with the reason, where the machine makes none.
class TwoHostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      hosts_.emplace();
    } catch (const std::runtime_error& refusal) {
      GTEST_SKIP() << refusal.what();
    }
  }

  /// Three updates of four rows, whatever the ranks, their gradients added in one order.
  Words train(const std::string& output, int num_ranks, const Words& more = {}) const {
    Words words{"max_steps=3",        "per_device_train_batch_size=1",
                "reduction=exact",    "gradient_accumulation_steps=" + std::to_string(4 / num_ranks),
                "learning_rate=0.01", "lora_dropout=0.1",
                "save_strategy=no"};
    words.insert(words.end(), more.begin(), more.end());
    return shop_.train(output, words);
  }
  /// The trained adapter of a run.
  std::string adapter(const std::string& output) const {
    return read_text_file(shop_ / output / "adapter_model.safetensors");
  }

  Workshop shop_;
  std::optional<TwoHosts> hosts_;
};

}  // namespace duoka::testing
