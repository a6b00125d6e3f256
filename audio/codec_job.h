// A call kept in a fixed place: what std::function does, without ever allocating.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace antiphon::audio {

// Moves, does not copy. Whatever it captures must fit kBytes, which is checked when it is compiled.
// REQUIRES: moving what it captures does not throw.
class CodecJob {
 public:
  static constexpr size_t kBytes = 256;

  CodecJob() = default;
  template <class Call>
  requires(!std::is_same_v<std::remove_cvref_t<Call>, CodecJob>)
      CodecJob(Call&& call) {  // NOLINT(bugprone-forwarding-reference-overload): see requires
    using Stored = std::remove_cvref_t<Call>;
    static_assert(sizeof(Stored) <= kBytes, "a codec job captures too much");
    static_assert(alignof(Stored) <= alignof(std::max_align_t));
    new (place_) Stored(std::forward<Call>(call));
    actions_ = &kActions<Stored>;
  }
  CodecJob(CodecJob&& other) noexcept { Take(other); }
  CodecJob& operator=(CodecJob&& other) noexcept {
    if (this != &other) {
      Clear();
      Take(other);
    }
    return *this;
  }
  ~CodecJob() { Clear(); }

  explicit operator bool() const { return actions_ != nullptr; }
  // REQUIRES: not empty.
  void operator()() { actions_->call(place_); }

 private:
  struct Actions {
    void (*call)(void*);
    void (*move)(void* from, void* to);  // and destroys `from`
    void (*destroy)(void*);
  };
  template <class Stored>
  static constexpr Actions kActions = {[](void* place) { (*static_cast<Stored*>(place))(); },
                                       [](void* from, void* to) {
                                         new (to) Stored(std::move(*static_cast<Stored*>(from)));
                                         static_cast<Stored*>(from)->~Stored();
                                       },
                                       [](void* place) { static_cast<Stored*>(place)->~Stored(); }};

  void Take(CodecJob& other) {
    if (other.actions_ == nullptr) return;
    other.actions_->move(other.place_, place_);
    actions_ = std::exchange(other.actions_, nullptr);
  }
  void Clear() {
    if (actions_ != nullptr) std::exchange(actions_, nullptr)->destroy(place_);
  }

  const Actions* actions_ = nullptr;
  alignas(std::max_align_t) std::byte place_[kBytes];
};

}  // namespace antiphon::audio
