// Tests ties of the unigram model: which of two equally good segmentations it keeps.
#include "text/unigram.h"

#include <gmock/gmock.h>

namespace tachy::text {
namespace {

using testing::ElementsAre;

// "xaaa" is x a aa or x aa a. Both sums are -17.565237 in single precision; before they are rounded the second is
// larger by 5e-7. libsentencepiece rounds, finds them equal and keeps the first.
TEST(Unigram, SumsInSinglePrecisionAreRoundedBeforeTheyAreCompared) {
  PieceTable pieces;
  for (const char* piece : {"<unk>", "x", "a", "aa"}) pieces.add(piece);
  const Unigram model(std::move(pieces), {0.0f, -3.37f, -5.079077243804932f, -9.116159439086914f}, 0,
                      {.single_precision = true});
  std::vector<int32_t> ids;
  model.encode("xaaa", ids);
  EXPECT_THAT(ids, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace tachy::text
