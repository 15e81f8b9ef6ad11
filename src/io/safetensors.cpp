// SPDX-License-Identifier: Apache-2.0
#include "duoka/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "duoka/core/error.h"
#include "duoka/core/text.h"
#include "duoka/io/json.h"

namespace duoka::io {

namespace {

constexpr uint64_t length_size = 8;
/// As in the reference library: a header is text, and a longer one is not worth its memory.
constexpr uint64_t max_header_bytes = 100'000'000;

/// a * b, or nothing when it does not fit. Neither is negative.
std::optional<int64_t> product(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// Reads one file's header; every refusal names the file.
class HeaderReader {
 public:
  explicit HeaderReader(const MappedFile& file) : file_(file), origin_(file.path().string()) {}

  struct Header {
    std::vector<TensorView> tensors;
    std::map<std::string, std::string> metadata;
  };

  Header read() const {
    refuse_other_formats();
    const std::string_view header_json = header_text();
    const auto data = file_.bytes().subspan(length_size + header_json.size());
    const Json json = parse_json(header_json, text_origin());
    if (!json.is_object()) refuse("its header is no JSON object");

    Header header;
    for (const auto& [name, value] : json.get_ref<const Json::object_t&>()) {
      if (name == "__metadata__") {
        header.metadata = metadata(value);
      } else {
        const Range range = this->range(name, value, data.size());
        TensorView view = tensor(name, value, range);
        view.bytes = data.subspan(range.begin, range.end - range.begin);
        header.tensors.push_back(std::move(view));
      }
    }
    // Ranges of equal begin are told apart by their end, so that empty tensors come first.
    std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorView& a, const TensorView& b) {
      return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
    });
    expect_no_gaps(header.tensors, data);
    return header;
  }

 private:
  struct Range {
    uint64_t begin;
    uint64_t end;
  };

  [[noreturn]] void refuse(const std::string& why) const {
    throw FormatError(text(origin_, ": ", printable(why)));
  }
  std::string text_origin() const { return origin_ + " (header)"; }

  void refuse_other_formats() const {
    const std::string_view start = file_.text().substr(0, 64);
    if (start.starts_with("PK\x03\x04"))
      refuse(
          "this is a zip file, as torch.save writes it, not safetensors; load it in Python and save it with "
          "safetensors.torch.save_file");
    // These two bytes may also begin an honest length (640, say), but then the file is longer than it.
    if (start.starts_with("\x80\x02") || start.starts_with("\x80\x03") || start.starts_with("\x80\x04"))
      if (start.size() >= length_size && stated_length() > file_.bytes().size())
        refuse(
            "this is a Python pickle, not safetensors; load it in Python and save it with "
            "safetensors.torch.save_file");
    if (start.starts_with("version https://git-lfs"))
      refuse("this is a Git LFS pointer, not the file itself; run `git lfs pull`, or download it again");
    if (start.starts_with("<!DOCTYPE") || start.starts_with("<html"))
      refuse("this is a web page, not safetensors; download the file again");
    if (start.starts_with("GGUF")) refuse("this is a GGUF file, not safetensors; rename it to .gguf");
  }

  uint64_t stated_length() const {
    uint64_t length = 0;
    std::memcpy(&length, file_.bytes().data(), length_size);
    return length;
  }

  std::string_view header_text() const {
    const uint64_t size = file_.bytes().size();
    if (size < length_size)
      refuse(text("it has ", size, " bytes; a safetensors file begins with a length of 8"));
    const uint64_t length = stated_length();
    if (length > size - length_size)
      refuse(text("its header should be ", length, " bytes long, but the file has only ", size - length_size,
                  " after the length; it is cut short or no safetensors file"));
    if (length > max_header_bytes)
      refuse(text("its header is ", length, " bytes long; at most ", max_header_bytes, " are accepted"));
    const std::string_view header = file_.text().substr(length_size, length);
    if (!header.starts_with('{')) refuse("its header does not begin with '{'; it is no safetensors file");
    return header;
  }

  std::map<std::string, std::string> metadata(const Json& json) const {
    if (!json.is_object()) refuse("__metadata__ is no object");
    std::map<std::string, std::string> all;
    for (const auto& [key, value] : json.get_ref<const Json::object_t&>()) {
      if (!value.is_string())
        refuse(text("__metadata__ \"", key, "\" is ", value.type_name(), "; wanted a string"));
      all.emplace(key, value.get<std::string>());
    }
    return all;
  }

  /// A JSON number as a size: not negative, no fraction.
  uint64_t count(const Json& value, const std::string& name, const char* what) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
      refuse(text("tensor ", name, ": ", what, " holds ",
                  value.is_number() ? value.dump() : value.type_name(), "; wanted a whole number from 0"));
    return value.get<uint64_t>();
  }

  Range range(const std::string& name, const Json& value, uint64_t data_size) const {
    const Json& offsets = require_array(value, "data_offsets", text(origin_, ": tensor ", printable(name)));
    if (offsets.size() != 2)
      refuse(text("tensor ", name, ": data_offsets has ",
                  counted(static_cast<int64_t>(offsets.size()), "number"), "; wanted 2"));
    const Range range{count(offsets[0], name, "data_offsets"), count(offsets[1], name, "data_offsets")};
    if (range.begin > range.end || range.end > data_size)
      refuse(text("tensor ", name, ": data_offsets [", range.begin, ", ", range.end,
                  "] lie outside the data, which has ", data_size,
                  " bytes; the file is cut short or damaged"));
    return range;
  }

  TensorView tensor(const std::string& name, const Json& value, Range range) const {
    const std::string origin = text(origin_, ": tensor ", printable(name));
    TensorView view;
    view.name = name;
    const std::string dtype = require_string(value, "dtype", origin);
    const auto known = dtype_from_safetensors(dtype);
    if (!known) refuse(text("tensor ", name, ": dtype ", dtype, " is not supported"));
    view.dtype = *known;

    std::optional<int64_t> bytes = size_of(view.dtype);
    for (const Json& dim : require_array(value, "shape", origin)) {
      view.shape.push_back(static_cast<int64_t>(count(dim, name, "shape")));
      // A dim of 0 would hide an overflow before it from the product, so numel() must hold as well.
      if (bytes) bytes = product(*bytes, std::max<int64_t>(1, view.shape.back()));
    }
    if (!bytes) refuse(text("tensor ", name, ": its shape is too large to be true"));
    if (static_cast<uint64_t>(view.num_bytes()) != range.end - range.begin)
      refuse(text("tensor ", name, ": its shape and dtype take ", view.num_bytes(),
                  " bytes, its data_offsets ", range.end - range.begin));
    return view;
  }

  /// Every byte of data belongs to exactly one tensor, so that no file hides something in between.
  void expect_no_gaps(const std::vector<TensorView>& sorted, std::span<const std::byte> data) const {
    const std::byte* at = data.data();
    for (const TensorView& tensor : sorted) {
      if (tensor.bytes.data() != at)
        refuse(text("tensor ", tensor.name,
                    tensor.bytes.data() < at ? ": its data overlaps another tensor's"
                                             : ": there are unused bytes before its data"));
      at += tensor.bytes.size();
    }
    if (const auto rest = data.data() + data.size() - at; rest != 0)
      refuse(text(rest, " bytes after the last tensor belong to none"));
  }

  const MappedFile& file_;
  std::string origin_;
};

}  // namespace

int64_t TensorSpec::numel() const {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  return count;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile opened;
  opened.file_ = MappedFile::open(path);
  auto header = HeaderReader(opened.file_).read();
  opened.tensors_ = std::move(header.tensors);
  opened.metadata_ = std::move(header.metadata);
  for (size_t i = 0; i < opened.tensors_.size(); ++i) opened.index_.emplace(opened.tensors_[i].name, i);
  return opened;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto at = index_.find(std::string(name));
  return at == index_.end() ? nullptr : &tensors_[at->second];
}

}  // namespace duoka::io
