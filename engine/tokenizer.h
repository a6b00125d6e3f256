// Sentencepiece tokenizer of a checkpoint. Thread-safe once open.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace antiphon::engine {

class Tokenizer {
 public:
  // Throws InputError naming the file.
  explicit Tokenizer(const std::string& path);
  ~Tokenizer();
  int size() const;
  // Ids without BOS/EOS.
  std::vector<int32_t> Encode(const std::string& text) const;
  // A token's text with U+2581 turned into a space; "" for control tokens and ids out of range.
  std::string Piece(int32_t id) const;
  std::string Decode(const std::vector<int32_t>& ids) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace antiphon::engine
