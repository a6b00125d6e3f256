// Safetensors files: whatever the bytes, opening gives tensors that lie inside them or an
// InputError.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/error.h"
#include "engine/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using antiphon::engine::SafeTensors;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const SafeTensors file = SafeTensors::FromBytes(bytes, "fuzz");
    const auto* begin = reinterpret_cast<const std::byte*>(data);
    for (const auto& [name, view] : file.tensors()) {
      if (view.data < begin || view.bytes() > size || view.data + view.bytes() > begin + size) {
        std::abort();
      }
    }
  } catch (const antiphon::InputError&) {
  }
  return 0;
}
