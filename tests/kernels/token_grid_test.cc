#include "kernels/token_grid.h"

#include <gtest/gtest.h>

#include <vector>

namespace antiphon::kernels {
namespace {

// One text stream, two agent and two user codebooks; the second of each pair is delayed by one.
TokenLayout Layout(bool personaplex) {
  TokenLayout layout;
  layout.streams = 5;
  layout.agent = 2;
  layout.generated = personaplex ? 4 : 2;
  layout.depth_steps = 2;
  layout.max_delay = 1;
  layout.ring = RingPositions(1);
  layout.lead = personaplex ? 1 : 0;
  layout.force_given = personaplex;
  layout.text_initial = 1000;
  layout.audio_initial = 500;
  layout.delays[2] = layout.delays[4] = 1;
  return layout;
}

struct Slot {
  explicit Slot(const TokenLayout& l)
      : layout(l),
        grid(static_cast<size_t>(GridElements(l.streams, l.ring))),
        given(static_cast<size_t>(l.streams), kNotGiven),
        inputs(given.size()),
        provided(given.size()),
        sampled(given.size()),
        out(given.size()),
        agent(static_cast<size_t>(l.agent)) {}

  // One evaluation with user codes u and u + 1; samples text t, codes t + 1, t + 2.
  void Step(int64_t position, int32_t u, int32_t t) {
    Row row;
    row.position = position;
    given[3] = u;
    given[4] = u + 1;
    TokensIn(layout, row, grid.data(), nullptr, given.data(), inputs.data(), provided.data());
    sampled = {t, t + 1, t + 2, 0, 0};
    TokensOut(layout, row, grid.data(), provided.data(), sampled.data(), out.data(), agent.data());
  }

  TokenLayout layout;
  std::vector<int32_t> grid, given, inputs, provided, sampled, out, agent;
};

using Tokens = std::vector<int32_t>;

TEST(TokenGridTest, MoshiTimeline) {
  Slot slot(Layout(false));
  slot.Step(0, 10, 100);
  EXPECT_EQ(slot.inputs, (Tokens{1000, 500, 500, 500, 500}));
  EXPECT_EQ(slot.out, Tokens(5, kNoToken));  // nothing until the longest delay has passed
  slot.Step(1, 20, 110);
  // Position 1: undelayed streams from evaluation 0 and the frame of time 1, delayed ones still
  // initial.
  EXPECT_EQ(slot.inputs, (Tokens{100, 101, 500, 20, 500}));
  // Time 0: text and first code sampled at evaluation 0, the delayed code at evaluation 1.
  EXPECT_EQ((Tokens{slot.out.begin(), slot.out.begin() + 3}), (Tokens{100, 101, 112}));
  EXPECT_EQ(slot.agent, (Tokens{101, 112}));
  slot.Step(2, 30, 120);
  EXPECT_EQ(slot.inputs, (Tokens{110, 111, 112, 30, 21}));
}

TEST(TokenGridTest, PersonaPlexForcesWhatIsGivenAtTheTarget) {
  Slot slot(Layout(true));
  slot.Step(0, 10, 100);
  // The caller's frame of call 1 stands at the target, position 1; delayed streams are still
  // initial there.
  EXPECT_EQ(slot.inputs, (Tokens{1000, 500, 500, 500, 500}));
  EXPECT_EQ(slot.provided, (Tokens{kNotGiven, kNotGiven, 500, 10, 500}));
  slot.Step(1, 20, 110);
  EXPECT_EQ(slot.inputs, (Tokens{100, 101, 500, 10, 500}));
  EXPECT_EQ(slot.provided, (Tokens{kNotGiven, kNotGiven, kNotGiven, 20, 11}));
  EXPECT_EQ(slot.out, (Tokens{100, 101, 112, 10, 11}));
}

TEST(TokenGridTest, TheRingTurnsWithoutEnd) {
  Slot slot(Layout(false));
  for (int32_t t = 0; t < 1000; ++t) slot.Step(t, 10 * t, 100 * t);
  slot.Step(1000, 7, 100000);
  EXPECT_EQ(slot.inputs, (Tokens{99900, 99901, 99902, 7, 9991}));
}

TEST(TokenGridTest, ANewTenantSeesNothingOfTheOld) {
  Slot slot(Layout(false));
  for (int32_t t = 0; t < 9; ++t) slot.Step(t, 77, 700);
  slot.given.assign(5, kNotGiven);
  Row row;
  TokensIn(slot.layout, row, slot.grid.data(), nullptr, slot.given.data(), slot.inputs.data(),
           slot.provided.data());
  TokensOut(slot.layout, row, slot.grid.data(), slot.provided.data(), slot.sampled.data(),
            slot.out.data(), slot.agent.data());
  row.position = 1;
  TokensIn(slot.layout, row, slot.grid.data(), nullptr, slot.given.data(), slot.inputs.data(),
           slot.provided.data());
  // The caller's stream was never given by this tenant: the zero token, not 77.
  EXPECT_EQ(slot.inputs[3], kZeroToken);
}

}  // namespace
}  // namespace antiphon::kernels
