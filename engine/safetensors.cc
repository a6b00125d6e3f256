#include "engine/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "engine/config_reader.h"
#include "engine/error.h"

namespace antiphon::engine {
namespace {

using nlohmann::json;

// The format's own limit on headers; anything larger is another kind of file.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

constexpr struct {
  Dtype dtype;
  const char* name;
  size_t bytes;
} kDtypes[] = {{Dtype::kF32, "F32", 4},  {Dtype::kF16, "F16", 2}, {Dtype::kBf16, "BF16", 2},
               {Dtype::kF64, "F64", 8},  {Dtype::kI64, "I64", 8}, {Dtype::kI32, "I32", 4},
               {Dtype::kI16, "I16", 2},  {Dtype::kI8, "I8", 1},   {Dtype::kU8, "U8", 1},
               {Dtype::kBool, "BOOL", 1}};

// Read-only bytes of a file, mapped for as long as this lives.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw InputError(path + ": cannot be opened: " + std::strerror(errno));
    struct stat info = {};
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
      ::close(fd);
      throw InputError(path + ": expected a regular file");
    }
    size_ = static_cast<size_t>(info.st_size);
    if (size_ > 0) data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    ::close(fd);
    if (data_ == MAP_FAILED) {
      throw InputError(path + ": cannot be mapped: " + std::strerror(error));
    }
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data_ != nullptr && data_ != MAP_FAILED) ::munmap(data_, size_);
  }
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Parses the header, noting names that it repeats (the parser itself would keep one of them in
// silence) and stopping at more nesting than the format has.
json ParseHeader(std::string_view text, const std::string& name) {
  constexpr int kMaxDepth = 8;
  std::vector<std::string> names;
  bool deep = false;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) deep = true;
    if (event == json::parse_event_t::key && depth == 1) names.push_back(parsed.get<std::string>());
    return !deep;
  };
  json header = json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (deep || header.is_discarded() || !header.is_object()) {
    throw InputError(name + ": not a safetensors file: its header is not a JSON object");
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw InputError(name + ": tensor " + *twice + " is described twice");
  return header;
}

Dtype DtypeOf(const std::string& text, const std::string& where) {
  for (const auto& entry : kDtypes) {
    if (text == entry.name) return entry.dtype;
  }
  throw InputError(where + ": unknown dtype \"" + text +
                   "\", expected one of F32, F16, BF16, F64, "
                   "I64, I32, I16, I8, U8, BOOL");
}

std::optional<uint64_t> Unsigned(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  const int64_t number = value.get<int64_t>();
  if (number < 0) return std::nullopt;
  return static_cast<uint64_t>(number);
}

TensorView ParseTensor(const json& entry, const std::string& where, std::string_view data) {
  TensorView view;
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2) {
    throw InputError(where + ": expected dtype, shape and two data_offsets");
  }
  view.dtype = DtypeOf(entry["dtype"].get<std::string>(), where);
  uint64_t elements = 1;
  for (const json& extent : entry["shape"]) {
    const std::optional<uint64_t> size = Unsigned(extent);
    if (!size || *size > (1ULL << 56) || __builtin_mul_overflow(elements, *size, &elements) ||
        elements > (1ULL << 56)) {
      throw InputError(where + ": shape " + entry["shape"].dump() + " is not a possible one");
    }
    view.shape.push_back(static_cast<int64_t>(*size));
  }
  const std::optional<uint64_t> begin = Unsigned(entry["data_offsets"][0]);
  const std::optional<uint64_t> end = Unsigned(entry["data_offsets"][1]);
  const std::string offsets = entry["data_offsets"].dump();
  if (!begin || !end || *begin > *end) {
    throw InputError(where + ": data_offsets " + offsets + " are out of range");
  }
  if (*end > data.size()) {
    throw InputError(where + ": data_offsets " + offsets + " are out of range: the file has " +
                     std::to_string(data.size()) + " bytes of data; it may be truncated");
  }
  const uint64_t expected = elements * DtypeBytes(view.dtype);
  if (*end - *begin != expected) {
    throw InputError(where + ": data_offsets " + offsets + " hold " +
                     std::to_string(*end - *begin) + " bytes, but dtype and shape need " +
                     std::to_string(expected));
  }
  view.data = reinterpret_cast<const std::byte*>(data.data() + *begin);
  return view;
}

void CheckOverlaps(const std::map<std::string, TensorView>& tensors, const std::string& name) {
  std::vector<std::pair<const std::byte*, const std::string*>> starts;
  for (const auto& [tensor, view] : tensors) {
    if (view.bytes() > 0) starts.emplace_back(view.data, &tensor);
  }
  std::sort(starts.begin(), starts.end());
  for (size_t i = 1; i < starts.size(); ++i) {
    const TensorView& before = tensors.at(*starts[i - 1].second);
    if (before.data + before.bytes() > starts[i].first) {
      throw InputError(name + ": tensors " + *starts[i - 1].second + " and " + *starts[i].second +
                       " have overlapping data_offsets");
    }
  }
}

std::map<std::string, TensorView> ParseFile(std::string_view bytes, const std::string& name) {
  constexpr std::string_view kLfs = "version https://git-lfs";
  if (bytes.substr(0, kLfs.size()) == kLfs) {
    throw InputError(name +
                     ": this is a Git-LFS pointer, not the file itself; fetch it with "
                     "`git lfs pull` or download it from the hub");
  }
  if (bytes.size() < 8) {
    throw InputError(name + ": truncated: expected at least 8 bytes, found " +
                     std::to_string(bytes.size()));
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  static_assert(std::endian::native == std::endian::little);
  if (header_bytes > kMaxHeaderBytes) {
    throw InputError(name + ": not a safetensors file: its first 8 bytes give a header of " +
                     std::to_string(header_bytes) + " bytes");
  }
  if (header_bytes > bytes.size() - 8) {
    throw InputError(name + ": truncated: the header needs " + std::to_string(header_bytes) +
                     " bytes, the file has " + std::to_string(bytes.size() - 8) +
                     " after its length");
  }
  const json header = ParseHeader(bytes.substr(8, header_bytes), name);
  const std::string_view data = bytes.substr(8 + header_bytes);
  std::map<std::string, TensorView> tensors;
  for (const auto& [tensor, entry] : header.items()) {
    if (tensor == "__metadata__") continue;
    tensors.emplace(tensor, ParseTensor(entry, name + ": tensor " + tensor, data));
  }
  CheckOverlaps(tensors, name);
  return tensors;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t exponent = (half >> 10) & 0x1FU;
  const uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {
    // Zero or subnormal: mantissa * 2^-24 is exact in float.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t bits =
      exponent == 31 ? 0x7F800000U | (mantissa << 13) : ((exponent + 112) << 23) | (mantissa << 13);
  return std::bit_cast<float>(sign | bits);
}

template <typename T>
T LoadAs(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

}  // namespace

size_t DtypeBytes(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].bytes; }
std::string_view DtypeName(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].name; }

int64_t TensorView::elements() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

void ReadFloats(const TensorView& tensor, int64_t begin, int64_t count, float* out) {
  switch (tensor.dtype) {
    case Dtype::kF32:
      std::memcpy(out, tensor.data + begin * 4, static_cast<size_t>(count) * 4);
      return;
    case Dtype::kBf16:
      for (int64_t i = 0; i < count; ++i) {
        out[i] = std::bit_cast<float>(uint32_t{LoadAs<uint16_t>(tensor.data, begin + i)} << 16);
      }
      return;
    case Dtype::kF16:
      for (int64_t i = 0; i < count; ++i) {
        out[i] = HalfToFloat(LoadAs<uint16_t>(tensor.data, begin + i));
      }
      return;
    case Dtype::kF64:
      for (int64_t i = 0; i < count; ++i) {
        out[i] = static_cast<float>(LoadAs<double>(tensor.data, begin + i));
      }
      return;
    default:
      std::fill_n(out, count, 0.0F);
  }
}

void ReadInts(const TensorView& tensor, int64_t begin, int64_t count, int32_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = begin + i;
    switch (tensor.dtype) {
      case Dtype::kI64:
        out[i] = static_cast<int32_t>(LoadAs<int64_t>(tensor.data, at));
        break;
      case Dtype::kI32:
        out[i] = LoadAs<int32_t>(tensor.data, at);
        break;
      case Dtype::kI16:
        out[i] = LoadAs<int16_t>(tensor.data, at);
        break;
      case Dtype::kI8:
        out[i] = int32_t{LoadAs<int8_t>(tensor.data, at)};
        break;
      case Dtype::kU8:
      case Dtype::kBool:
        out[i] = LoadAs<uint8_t>(tensor.data, at);
        break;
      default:
        out[i] = 0;
    }
  }
}

struct SafeTensors::State {
  std::string path;
  std::vector<std::unique_ptr<Mapping>> mappings;
  std::shared_ptr<const void> memory;  // of FromViews
  std::map<std::string, TensorView> tensors;
};

SafeTensors::SafeTensors(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafeTensors::SafeTensors(SafeTensors&&) noexcept = default;
SafeTensors& SafeTensors::operator=(SafeTensors&&) noexcept = default;
SafeTensors::~SafeTensors() = default;

SafeTensors SafeTensors::Open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->mappings.push_back(std::make_unique<Mapping>(path));
  state->tensors = ParseFile(state->mappings.back()->bytes(), path);
  return SafeTensors(std::move(state));
}

SafeTensors SafeTensors::OpenIndex(const std::string& index_path) {
  std::ifstream file(index_path);
  if (!file) throw InputError(index_path + ": cannot be opened");
  const json index =
      ParseBoundedJson({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw InputError(index_path + ": expected a JSON object with a weight_map");
  }
  const size_t slash = index_path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "" : index_path.substr(0, slash + 1);
  auto state = std::make_unique<State>();
  state->path = index_path;
  std::map<std::string, std::map<std::string, TensorView>> shards;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    // A shard is a name in the same folder, never a path elsewhere.
    if (!shard.is_string() || shard.get<std::string>().find('/') != std::string::npos) {
      throw InputError(index_path + ": weight_map." + tensor + ": expected a file name, found " +
                       shard.dump());
    }
    const std::string name = shard.get<std::string>();
    if (!shards.contains(name)) {
      state->mappings.push_back(std::make_unique<Mapping>(folder + name));
      shards[name] = ParseFile(state->mappings.back()->bytes(), folder + name);
    }
    const auto found = shards[name].find(tensor);
    if (found == shards[name].end()) {
      throw InputError(folder + name + ": missing tensor " + tensor + ", which the index names");
    }
    state->tensors.insert(*found);
  }
  return SafeTensors(std::move(state));
}

SafeTensors SafeTensors::FromBytes(std::string_view bytes, const std::string& name) {
  auto state = std::make_unique<State>();
  state->path = name;
  state->tensors = ParseFile(bytes, name);
  return SafeTensors(std::move(state));
}

SafeTensors SafeTensors::FromViews(std::map<std::string, TensorView> tensors,
                                   std::shared_ptr<const void> memory, const std::string& name) {
  auto state = std::make_unique<State>();
  state->path = name;
  state->memory = std::move(memory);
  state->tensors = std::move(tensors);
  return SafeTensors(std::move(state));
}

const std::map<std::string, TensorView>& SafeTensors::tensors() const { return state_->tensors; }
const std::string& SafeTensors::path() const { return state_->path; }
bool SafeTensors::Has(const std::string& name) const { return state_->tensors.contains(name); }

const TensorView& SafeTensors::Get(const std::string& name) const {
  const auto found = state_->tensors.find(name);
  if (found == state_->tensors.end()) {
    throw InputError(state_->path + ": missing tensor " + name);
  }
  return found->second;
}

const TensorView& SafeTensors::Get(const std::string& name,
                                   const std::vector<int64_t>& shape) const {
  const TensorView& view = Get(name);
  if (view.shape != shape) {
    throw InputError(state_->path + ": tensor " + name + ": expected shape " + ShapeText(shape) +
                     ", found " + ShapeText(view.shape));
  }
  if (view.dtype != Dtype::kF32 && view.dtype != Dtype::kF16 && view.dtype != Dtype::kBf16 &&
      view.dtype != Dtype::kF64) {
    throw InputError(state_->path + ": tensor " + name + ": expected a floating dtype, found " +
                     std::string(DtypeName(view.dtype)));
  }
  return view;
}

}  // namespace antiphon::engine
