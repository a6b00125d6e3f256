// The paged cache as the reference keeps it: float32 in plain order, but every value rounded as the
// format would round it, at the same moment. What an executor computes from packed pages must agree
// with what plain attention computes from these.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/kv_cache.h"

namespace antiphon::kernels::reference {

class KvStore {
 public:
  KvStore() = default;
  explicit KvStore(const KvShape& shape);

  const KvShape& shape() const { return shape_; }

  // Stores k and v [kv_heads, head_dim] of a slot's position in `layer`, and seals a page if it is
  // due. table: [slots, slot_pages].
  void Append(const int32_t* table, int32_t slot, int64_t position, int32_t layer, const float* k,
              const float* v);
  // [head_dim] of a position.
  const float* Key(const int32_t* table, int32_t slot, int64_t position, int32_t layer,
                   int32_t head) const;
  const float* Value(const int32_t* table, int32_t slot, int64_t position, int32_t layer,
                     int32_t head) const;

  // A page's floats, keys and values.
  size_t page_elements() const { return page_elements_; }
  float* page(int32_t index) { return data_.data() + static_cast<size_t>(index) * page_elements_; }
  const float* page(int32_t index) const {
    return data_.data() + static_cast<size_t>(index) * page_elements_;
  }
  size_t elements() const { return data_.size(); }

 private:
  size_t Offset(const int32_t* table, int32_t slot, int64_t position, int32_t layer, int32_t head,
                bool value) const;
  void Seal(const int32_t* table, int32_t slot, int64_t page, int32_t layer);

  KvShape shape_;
  size_t page_elements_ = 0;
  std::vector<float> data_;  // [pages, 2 (keys, values), layers, kv_heads, kKvPage, head_dim]
};

}  // namespace antiphon::kernels::reference
