#include "engine/synthetic_checkpoint.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "engine/error.h"

namespace antiphon::engine {
namespace {

// A prime number of pages, so that the rows of a matrix are not copies of each other.
constexpr size_t kBlockBytes = size_t{4099} * 4096;

// `bytes` of address space in which one block of random bf16 repeats. As F32 its upper halves are
// what counts, so that both types read numbers of the same size.
class RepeatedBlock {
 public:
  explicit RepeatedBlock(size_t bytes) {
    const int fd = ::memfd_create("antiphon-synthetic", MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, kBlockBytes) != 0) Fail("memfd");
    size_ = (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    data_ = ::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) Fail("address space");
    for (size_t at = 0; at < size_; at += kBlockBytes) {
      void* place = static_cast<std::byte*>(data_) + at;
      if (::mmap(place, kBlockBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
          MAP_FAILED) {
        Fail("block");
      }
    }
    ::close(fd);
    auto* values = static_cast<uint16_t*>(data_);
    std::mt19937 random(1);
    for (size_t i = 0; i < kBlockBytes / 2; ++i) {
      // Sign and mantissa random, magnitude 2^-9 to 2^-5.
      const auto bits = static_cast<uint32_t>(random());
      values[i] = static_cast<uint16_t>((bits & 0x807FU) | ((118 + (bits >> 8) % 4) << 7));
    }
  }
  RepeatedBlock(const RepeatedBlock&) = delete;
  RepeatedBlock& operator=(const RepeatedBlock&) = delete;
  ~RepeatedBlock() { ::munmap(data_, size_); }
  const std::byte* data() const { return static_cast<const std::byte*>(data_); }

 private:
  [[noreturn]] static void Fail(const char* what) {
    throw InputError(std::string("synthetic weights: cannot map ") + what + ": " +
                     std::strerror(errno));
  }
  void* data_ = nullptr;
  size_t size_ = 0;
};

SafeTensors Fill(const std::string& name, const TensorShapes& shapes, Dtype dtype) {
  std::map<std::string, TensorView> tensors;
  size_t largest = 0;
  for (const auto& [tensor, shape] : shapes) {
    TensorView view;
    view.dtype = dtype;
    view.shape = shape;
    largest = std::max(largest, view.bytes());
    tensors.emplace(tensor, std::move(view));
  }
  const auto block = std::make_shared<RepeatedBlock>(largest + kBlockBytes);
  size_t offset = 0;
  for (auto& [tensor, view] : tensors) {
    view.data = block->data() + offset;
    offset = (offset + 4096) % kBlockBytes;
  }
  return SafeTensors::FromViews(std::move(tensors), block, name);
}

}  // namespace

Checkpoint MakeSyntheticCheckpoint(const std::string& name, const LmConfig* lm,
                                   const MimiConfig* mimi) {
  std::shared_ptr<SafeTensors> lm_tensors, mimi_tensors;
  if (lm != nullptr) {
    lm_tensors =
        std::make_shared<SafeTensors>(Fill(name + " (lm)", ExpectedLmTensors(*lm), Dtype::kBf16));
  }
  if (mimi != nullptr) {
    mimi_tensors = std::make_shared<SafeTensors>(
        Fill(name + " (mimi)", ExpectedMimiTensors(*mimi), Dtype::kF32));
  }
  return Checkpoint::FromParts(name, lm, std::move(lm_tensors), mimi, std::move(mimi_tensors));
}

}  // namespace antiphon::engine
