#include "kernels/reference/kv_store.h"

#include <algorithm>

#include "kernels/bf16.h"
#include "kernels/kv_quant.h"

namespace antiphon::kernels::reference {
namespace {

// out[n] = x[n] as `format` holds it when it is appended.
void Round(KvFormat format, const float* x, int32_t n, float* out) {
  switch (format) {
    case KvFormat::kF32:
      std::copy(x, x + n, out);
      return;
    case KvFormat::kBf16:
      std::transform(x, x + n, out, [](float value) { return FromBf16(ToBf16(value)); });
      return;
    case KvFormat::kInt8:
    case KvFormat::kInt4: {
      const Int8Scale scale = Int8Scale::Of(x, n);
      std::transform(x, x + n, out, [&](float value) {
        return scale.value * static_cast<float>(scale.Quantize(value));
      });
      return;
    }
  }
}

}  // namespace

KvStore::KvStore(const KvShape& shape)
    : shape_(shape),
      page_elements_(size_t{2} * static_cast<size_t>(shape.layers * shape.kv_heads) * kKvPage *
                     static_cast<size_t>(shape.head_dim)),
      data_(page_elements_ * static_cast<size_t>(shape.pages)) {}

size_t KvStore::Offset(const int32_t* table, int32_t slot, int64_t position, int32_t layer,
                       int32_t head, bool value) const {
  const auto page = static_cast<size_t>(table[TableEntry(shape_, slot, position)]);
  const auto row = static_cast<size_t>((layer * shape_.kv_heads + head) * kKvPage) +
                   static_cast<size_t>(position % kKvPage);
  return page * page_elements_ + (value ? page_elements_ / 2 : 0) +
         row * static_cast<size_t>(shape_.head_dim);
}

const float* KvStore::Key(const int32_t* table, int32_t slot, int64_t position, int32_t layer,
                          int32_t head) const {
  return data_.data() + Offset(table, slot, position, layer, head, false);
}

const float* KvStore::Value(const int32_t* table, int32_t slot, int64_t position, int32_t layer,
                            int32_t head) const {
  return data_.data() + Offset(table, slot, position, layer, head, true);
}

void KvStore::Append(const int32_t* table, int32_t slot, int64_t position, int32_t layer,
                     const float* k, const float* v) {
  const int32_t n = shape_.head_dim;
  for (int32_t head = 0; head < shape_.kv_heads; ++head) {
    Round(shape_.format, k + head * n, n,
          data_.data() + Offset(table, slot, position, layer, head, false));
    Round(shape_.format, v + head * n, n,
          data_.data() + Offset(table, slot, position, layer, head, true));
  }
  const int64_t due = PageToSeal(shape_, layer, position);
  if (due >= 0) Seal(table, slot, due, layer);
}

void KvStore::Seal(const int32_t* table, int32_t slot, int64_t page, int32_t layer) {
  const auto n = static_cast<size_t>(shape_.head_dim);
  for (int32_t head = 0; head < shape_.kv_heads; ++head) {
    float* keys = data_.data() + Offset(table, slot, page * kKvPage, layer, head, false);
    for (size_t c = 0; c < n; ++c) {
      float least = keys[c], largest = keys[c];
      for (size_t p = 0; p < kKvPage; ++p) {
        least = std::min(least, keys[p * n + c]);
        largest = std::max(largest, keys[p * n + c]);
      }
      const Int4Channel channel = Int4Channel::Of(least, largest);
      for (size_t p = 0; p < kKvPage; ++p) {
        float& key = keys[p * n + c];
        key = channel.Value(channel.Quantize(key));
      }
    }
    float* values = data_.data() + Offset(table, slot, page * kKvPage, layer, head, true);
    for (size_t p = 0; p < kKvPage; ++p) {
      const Int4Scale scale = Int4Scale::Of(values + p * n, shape_.head_dim);
      for (size_t c = 0; c < n; ++c) {
        float& value = values[p * n + c];
        value = scale.Value(scale.Quantize(value));
      }
    }
  }
}

}  // namespace antiphon::kernels::reference
