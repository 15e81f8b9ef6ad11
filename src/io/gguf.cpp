// SPDX-License-Identifier: Apache-2.0
#include "duoka/io/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "io/ggml_types.h"
#include "io/gguf_values.h"

namespace duoka::io {

/// Walks a file's header from front to back. Nothing is taken that is not there, and nothing is allocated
/// by a count before the file is known to be long enough for it.
class GgufReader {
 public:
  explicit GgufReader(GgufFile& file) : file_(file), bytes_(file.file_.bytes()) {}

  void read() {
    read_start();
    const uint64_t num_tensors = read_count(min_tensor_bytes, "tensors");
    const uint64_t num_values = read_count(min_value_bytes, "metadata values");
    for (uint64_t i = 0; i < num_values; ++i) read_metadata();
    refuse_part_of_several();
    std::vector<uint64_t> offsets;
    for (uint64_t i = 0; i < num_tensors; ++i) offsets.push_back(read_tensor());
    place_tensors(offsets);
  }

 private:
  // The shortest that each can be: an empty name and the fixed fields.
  static constexpr uint64_t min_value_bytes = 8 + 4 + 1;
  static constexpr uint64_t min_tensor_bytes = 8 + 4 + 4 + 8;
  static constexpr uint32_t max_dims = 4;  // as in ggml
  static constexpr int max_array_depth = 4;

  [[noreturn]] void refuse(const std::string& why) const {
    throw FormatError(text(file_.path().string(), ": ", printable(why)));
  }

  uint64_t rest() const { return bytes_.size() - at_; }

  std::span<const std::byte> take(uint64_t count, std::string_view what) {
    if (count > rest())
      refuse(text("its header is cut short or damaged: ", what, " at byte ", at_, " needs ", count,
                  " bytes, ", rest(), " are left"));
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }

  template <class Number>
  Number number(std::string_view what) {
    Number value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

  std::string_view string(std::string_view what) { return gguf::as_text(take(number<uint64_t>(what), what)); }

  uint64_t read_count(uint64_t min_bytes, std::string_view what) {
    const auto count = number<uint64_t>(what);
    // The other count and the values follow; a rough bound is enough to keep loops and memory in check.
    if (count > bytes_.size() / min_bytes)
      refuse(text("it claims ", count, " ", what, ", more than it has room for"));
    return count;
  }

  void read_start() {
    const auto magic = gguf::as_text(bytes_.first(std::min<size_t>(4, bytes_.size())));
    if (magic != "GGUF") {
      if (magic == "vers") refuse("this is a Git LFS pointer, not the file itself; run `git lfs pull`");
      refuse("it does not begin with GGUF; it is no GGUF file");
    }
    take(4, "magic");
    const auto version = number<uint32_t>("version");
    if (version == 0x02000000 || version == 0x03000000)
      refuse("this is a big-endian GGUF file; convert it with gguf-convert-endian FILE little");
    if (version != 2 && version != 3)
      refuse(
          text("GGUF version ", version, " is not supported; versions 2 and 3 are. Convert the model again"));
    file_.version_ = version;
  }

  void read_metadata() {
    const std::string key(string("metadata key"));
    const auto type = number<uint32_t>(key);
    if (!file_.metadata_.emplace(key, value_of(type, key, 0)).second)
      refuse(text("the metadata key ", key, " is given twice"));
    file_.keys_.push_back(key);
  }

  GgufFile::Value value_of(uint32_t type, const std::string& key, int depth) {
    GgufFile::Value value;
    value.type = type;
    const uint64_t begin = at_;
    if (type == gguf::array_type) {
      if (depth == max_array_depth) refuse(text("metadata ", key, ": arrays nested too deep"));
      value.is_array = true;
      value.type = number<uint32_t>(key);
      value.count = number<uint64_t>(key);
      value.bytes = elements(value, key, depth);
    } else if (type == gguf::string_type) {
      string(key);
      value.bytes = bytes_.subspan(begin, at_ - begin);
    } else {
      value.bytes = take(size_of_type(type, key), key);
    }
    return value;
  }

  /// Walks over an array's elements and returns their bytes.
  std::span<const std::byte> elements(const GgufFile::Value& array, const std::string& key, int depth) {
    const bool is_fixed = array.type != gguf::string_type && array.type != gguf::array_type;
    // A string has a length of 8 bytes at least, an array a type and a count.
    const uint64_t min_size = is_fixed                          ? size_of_type(array.type, key)
                              : array.type == gguf::string_type ? 8
                                                                : 12;
    if (array.count > rest() / min_size)
      refuse(text("metadata ", key, " claims ", array.count, " elements, more than the file has room for"));
    const uint64_t begin = at_;
    if (is_fixed) {
      take(array.count * min_size, key);
    } else {
      for (uint64_t i = 0; i < array.count; ++i) value_of(array.type, key, depth + 1);
    }
    return bytes_.subspan(begin, at_ - begin);
  }

  uint64_t size_of_type(uint32_t type, const std::string& key) const {
    const uint64_t size = gguf::size_of_type(type);
    if (size == 0) refuse(text("metadata ", key, " has type ", type, ", which GGUF does not know"));
    return size;
  }

  void refuse_part_of_several() const {
    if (const auto parts = file_.optional_int("split.count"); parts && *parts > 1)
      refuse(text("this is one of ", *parts,
                  " parts of a model; join them with llama-gguf-split --merge first"));
  }

  /// Reads a tensor's description and returns where its data begins, from the start of all data.
  uint64_t read_tensor() {
    GgufTensor tensor;
    tensor.name = string("tensor name");
    const auto num_dims = number<uint32_t>(tensor.name);
    if (num_dims > max_dims)
      refuse(text("tensor ", tensor.name, " has ", num_dims, " dims; at most 4 are possible"));
    int64_t numel = 1;
    for (uint32_t i = 0; i < num_dims; ++i) {
      const auto dim = number<int64_t>(tensor.name);
      if (dim < 0 || __builtin_mul_overflow(numel, std::max<int64_t>(1, dim), &numel))
        refuse(text("tensor ", tensor.name, ": its shape is too large to be true"));
      tensor.shape.push_back(dim);
    }
    std::reverse(tensor.shape.begin(), tensor.shape.end());  // the file has the fastest dim first
    tensor.type = GgmlType{number<uint32_t>(tensor.name)};
    const auto offset = number<uint64_t>(tensor.name);
    if (!file_.index_.emplace(tensor.name, file_.tensors_.size()).second)
      refuse(text("the tensor ", tensor.name, " is given twice"));
    file_.tensors_.push_back(std::move(tensor));
    return offset;
  }

  uint64_t num_bytes(const GgufTensor& tensor) const {
    const GgmlTypeInfo* type = find_ggml_type(static_cast<uint32_t>(tensor.type));
    if (type == nullptr)
      refuse(text("tensor ", tensor.name, " has ", ggml_type_name(tensor.type), ", which is not known"));
    if (tensor.row_length() % type->block_length != 0)
      refuse(text("tensor ", tensor.name, ": rows of ", tensor.row_length(), " are no whole blocks of ",
                  type->name));
    int64_t bytes = 0;
    if (__builtin_mul_overflow(tensor.numel() / type->block_length, type->block_bytes, &bytes))
      refuse(text("tensor ", tensor.name, ": its shape is too large to be true"));
    return static_cast<uint64_t>(bytes);
  }

  /// Gives each tensor its bytes: data begins after the header, at the next multiple of the alignment.
  void place_tensors(const std::vector<uint64_t>& offsets) {
    const int64_t alignment = file_.optional_int("general.alignment").value_or(32);
    if (alignment <= 0 || alignment > 1 << 20 || !std::has_single_bit(static_cast<uint64_t>(alignment)))
      refuse(text("general.alignment is ", alignment, "; wanted a power of two up to 1048576"));
    const auto unit = static_cast<uint64_t>(alignment);
    const uint64_t begin = std::min<uint64_t>((at_ + unit - 1) / unit * unit, bytes_.size());
    const auto data = bytes_.subspan(begin);
    for (size_t i = 0; i < offsets.size(); ++i) {
      GgufTensor& tensor = file_.tensors_[i];
      const uint64_t size = num_bytes(tensor);
      if (offsets[i] % unit != 0) refuse(text("tensor ", tensor.name, ": its data is not aligned to ", unit));
      if (offsets[i] > data.size() || size > data.size() - offsets[i])
        refuse(text("tensor ", tensor.name, ": its data (", size, " bytes from ", offsets[i],
                    ") lies beyond the end of the file; the file is cut short or damaged"));
      tensor.bytes = data.subspan(offsets[i], size);
    }
  }

  GgufFile& file_;
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
};

int64_t GgufTensor::numel() const {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  return count;
}

int64_t GgufTensor::num_rows() const { return row_length() == 0 ? 0 : numel() / row_length(); }

std::string ggml_type_name(GgmlType type) {
  const GgmlTypeInfo* info = find_ggml_type(static_cast<uint32_t>(type));
  return info == nullptr ? text("type ", static_cast<uint32_t>(type)) : std::string(info->name);
}

GgufFile GgufFile::open(const std::filesystem::path& path) {
  GgufFile opened;
  opened.file_ = MappedFile::open(path);
  GgufReader(opened).read();
  return opened;
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto at = index_.find(std::string(name));
  return at == index_.end() ? nullptr : &tensors_[at->second];
}

}  // namespace duoka::io
