// A recorded conversation, and what a model thinks of it when every token is given.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model.h"

namespace antiphon::cli {

// How a model's numbers are kept.
struct Formats {
  std::string weights = "fp32";
  std::string kv = "fp32";
};

// Tokens of all streams by undelayed time: [streams, frames].
struct Conversation {
  std::vector<int32_t> codes;
  size_t frames = 0;
};

// One evaluation's distributions: text, then the agent's codebooks.
struct Evaluation {
  std::vector<std::vector<float>> logits;  // [1 + dep_q][vocabulary]
  std::vector<int32_t> tokens;             // [1 + dep_q]: what was given; negative: nothing
};

using CheckpointPtr = std::shared_ptr<const engine::Checkpoint>;

// What the fp32 model says, greedily, to a recording (mono samples at the codec's rate).
Conversation Converse(const CheckpointPtr& checkpoint, const std::vector<float>& sound);

// A golden file's conversation: its tokens (`codes` [rows, streams, frames], the first row), or
// what the fp32 model says to its caller (`user_codes` [codebooks, frames]). No frames where it has
// neither. Throws InputError.
Conversation ReadConversation(const CheckpointPtr& checkpoint, const std::string& file);

// Calls `score` with every evaluation of a conversation, by a model in the given formats.
class TeacherForcing {
 public:
  TeacherForcing(const CheckpointPtr& checkpoint, const Formats& formats);
  ~TeacherForcing();
  std::vector<Evaluation> Score(const Conversation& conversation);

 private:
  CheckpointPtr checkpoint_;
  std::unique_ptr<engine::Model> model_;
};

}  // namespace antiphon::cli
