// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace duoka::data::testing {

/// The bytes of a GGUF file (version 3) that has metadata and no tensors.
class GgufBytes {
 public:
  GgufBytes& add(std::string_view key, std::string_view value) {
    begin(key, 8);
    put_string(entries_, value);
    return *this;
  }
  GgufBytes& add(std::string_view key, uint32_t value) {
    begin(key, 4);
    put(entries_, value);
    return *this;
  }
  GgufBytes& add_bool(std::string_view key, bool value) {
    begin(key, 7);
    entries_ += static_cast<char>(value);
    return *this;
  }
  GgufBytes& add(std::string_view key, const std::vector<std::string>& values) {
    begin_array(key, 8, values.size());
    for (const std::string& value : values) put_string(entries_, value);
    return *this;
  }
  GgufBytes& add(std::string_view key, const std::vector<int32_t>& values) {
    begin_array(key, 5, values.size());
    for (const int32_t value : values) put(entries_, value);
    return *this;
  }

  std::string bytes() const {
    std::string file = "GGUF";
    put(file, uint32_t{3});
    put(file, uint64_t{0});
    put(file, count_);
    return file + entries_;
  }

 private:
  template <class T>
  static void put(std::string& out, T value) {
    for (size_t i = 0; i < sizeof value; ++i) {
      out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xFF);
    }
  }
  static void put_string(std::string& out, std::string_view value) {
    put(out, uint64_t{value.size()});
    out += value;
  }
  void begin(std::string_view key, uint32_t type) {
    put_string(entries_, key);
    put(entries_, type);
    ++count_;
  }
  void begin_array(std::string_view key, uint32_t type, size_t size) {
    begin(key, 9);
    put(entries_, type);
    put(entries_, uint64_t{size});
  }

  std::string entries_;
  uint64_t count_ = 0;
};

}  // namespace duoka::data::testing
