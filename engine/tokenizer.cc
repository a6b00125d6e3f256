#include "engine/tokenizer.h"

#include <sentencepiece_processor.h>

#include "engine/error.h"

namespace antiphon::engine {

struct Tokenizer::State {
  sentencepiece::SentencePieceProcessor processor;
};

Tokenizer::Tokenizer(const std::string& path) : state_(std::make_unique<State>()) {
  const auto status = state_->processor.Load(path);
  if (!status.ok()) {
    throw InputError(path + ": not a sentencepiece tokenizer: " + status.ToString());
  }
}

Tokenizer::~Tokenizer() = default;

int Tokenizer::size() const { return state_->processor.GetPieceSize(); }

std::vector<int32_t> Tokenizer::Encode(const std::string& text) const {
  std::vector<int> ids;
  if (!state_->processor.Encode(text, &ids).ok()) return {};
  return {ids.begin(), ids.end()};
}

std::string Tokenizer::Piece(int32_t id) const {
  if (id < 0 || id >= size() || state_->processor.IsControl(id) ||
      state_->processor.IsUnknown(id)) {
    return "";
  }
  std::string piece = state_->processor.IdToPiece(id);
  // Byte pieces ("<0x41>") stand for one byte of text.
  if (state_->processor.IsByte(id)) {
    return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
  }
  const std::string mark = "\u2581";
  for (size_t at = piece.find(mark); at != std::string::npos; at = piece.find(mark, at)) {
    piece.replace(at, mark.size(), " ");
  }
  return piece;
}

std::string Tokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string text;
  if (!state_->processor.Decode(std::vector<int>(ids.begin(), ids.end()), &text).ok()) return "";
  return text;
}

}  // namespace antiphon::engine
