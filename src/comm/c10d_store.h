// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/key_store.h"

namespace duoka::comm {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// The KeyStore that key_store.h makes: over one of c10d's, which its backends need.
class C10dStore final : public KeyStore {
 public:
  explicit C10dStore(StorePtr store) : store_(std::move(store)) {}

  std::string set_once(const std::string& key, const std::string& value) override;
  std::optional<std::string> find(const std::string& key) override;
  int64_t add(const std::string& key, int64_t count) override;
  const StorePtr& get() const { return store_; }

 private:
  StorePtr store_;
};

/// c10d writes an error of its own to stderr before it throws, and warns of peers whose address has no name;
/// the culprit's error is to be the only one there. Who asks for c10d's messages gets them.
void silence_c10d();

}  // namespace duoka::comm
