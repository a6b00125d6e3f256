// Read-only view of a safetensors file or of a set of shards with an index: memory-mapped, checked
// once when opened, so that later reads cannot fail.
//
// Format: https://github.com/huggingface/safetensors (8-byte little-endian header length, JSON
// header name -> {dtype, shape, data_offsets}, then raw row-major data).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace antiphon::engine {

enum class Dtype : uint8_t { kF32, kF16, kBf16, kF64, kI64, kI32, kI16, kI8, kU8, kBool };

// Bytes of one element, and the format's name for it ("F32").
size_t DtypeBytes(Dtype dtype);
std::string_view DtypeName(Dtype dtype);

struct TensorView {
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;  // owned by the SafeTensors it came from; any alignment
  int64_t elements() const;
  size_t bytes() const { return static_cast<size_t>(elements()) * DtypeBytes(dtype); }
};

// Converts elements [begin, begin + count) of a floating tensor (F32, F16, BF16, F64) to float.
// REQUIRES: the range lies in the tensor and its dtype is floating.
void ReadFloats(const TensorView& tensor, int64_t begin, int64_t count, float* out);
// The same for integer tensors (I64, I32, I16, I8, U8, BOOL).
void ReadInts(const TensorView& tensor, int64_t begin, int64_t count, int32_t* out);

class SafeTensors {
 public:
  // Opens one file, a folder's `*.safetensors.index.json`, or an image that must outlive the
  // result. Throws InputError, one sentence: not a safetensors file, a Git-LFS pointer, truncated,
  // header not JSON, overlapping or out-of-range offsets, unknown dtype.
  static SafeTensors Open(const std::string& path);
  static SafeTensors OpenIndex(const std::string& index_path);
  static SafeTensors FromBytes(std::string_view bytes, const std::string& name);
  // Tensors whose data `memory` holds.
  static SafeTensors FromViews(std::map<std::string, TensorView> tensors,
                               std::shared_ptr<const void> memory, const std::string& name);

  SafeTensors(SafeTensors&&) noexcept;
  SafeTensors& operator=(SafeTensors&&) noexcept;
  ~SafeTensors();

  const std::map<std::string, TensorView>& tensors() const;
  bool Has(const std::string& name) const;
  // Throws InputError naming the file and the tensor where it is missing.
  const TensorView& Get(const std::string& name) const;
  // As Get, and checks the shape; a wrong shape is an InputError with both shapes.
  const TensorView& Get(const std::string& name, const std::vector<int64_t>& shape) const;
  const std::string& path() const;

 private:
  struct State;
  explicit SafeTensors(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace antiphon::engine
