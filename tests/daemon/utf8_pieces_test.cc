#include "daemon/utf8_pieces.h"

#include <gtest/gtest.h>

namespace antiphon::daemon {
namespace {

TEST(Utf8PiecesTest, WholePiecesPassAsTheyAre) {
  Utf8Pieces pieces;
  EXPECT_EQ(pieces.Add(" hello"), " hello");
  EXPECT_EQ(pieces.Add(""), "");
  EXPECT_EQ(pieces.Add(" gr\xC3\xBC\xC3\x9F"), " gr\xC3\xBC\xC3\x9F");
}

TEST(Utf8PiecesTest, ACharacterInSeveralPiecesComesWhole) {
  Utf8Pieces pieces;
  EXPECT_EQ(pieces.Add("a\xF0"), "a");
  EXPECT_EQ(pieces.Add("\x9F"), "");
  EXPECT_EQ(pieces.Add("\x99"), "");
  EXPECT_EQ(pieces.Add("\x82!"), "\xF0\x9F\x99\x82!");
}

TEST(Utf8PiecesTest, BytesThatBeginNoCharacterAreLeftOut) {
  Utf8Pieces pieces;
  EXPECT_EQ(pieces.Add("\xFF\x80ok"), "ok");
  EXPECT_EQ(pieces.Add("\xE2\x82"), "");
  EXPECT_EQ(pieces.Add("x"), "x");
}

}  // namespace
}  // namespace antiphon::daemon
