// Tests ranges, choices and their wording; fields in backticks, and how a front end replaces them.
#include "base/field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tachy {
namespace {

template <class Body>
std::string refusal(Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.message();
  }
  return "accepted";
}

TEST(Field, RangesHoldTheirEndsAndNoNan) {
  const Range whole{.least = 1, .most = 9}, above{.least = 0, .most = 9, .above = true};
  EXPECT_TRUE(whole.holds(1) && whole.holds(9));
  EXPECT_FALSE(whole.holds(0.999) || whole.holds(9.001) || whole.holds(NAN) || whole.holds(INFINITY));
  EXPECT_TRUE(above.holds(1e-9));
  EXPECT_FALSE(above.holds(0) || above.holds(NAN));
}

TEST(Field, RefusalsNameFieldValueAndWhatWouldWork) {
  EXPECT_EQ(refusal([] { check_range("steps", 0, {.least = 1, .most = 1000}); }),
            "`steps`: expected 1 to 1000, got 0");
  EXPECT_EQ(refusal([] { check_range("shift", -0.5, {.least = 0, .most = 100, .above = true}); }),
            "`shift`: expected above 0 to 100, got -0.5");
  EXPECT_EQ(refusal([] { check_range("threads", -1, kThreadsRange); }),
            "`threads`: expected 0 (all) to 1024, got -1");
  EXPECT_EQ(refusal([] {
              check_choice("rng", "tpu", {"cpu", "cuda"});
            }),
            "`rng`: expected cpu or cuda, got 'tpu'");
  EXPECT_EQ(refusal([] {
              check_choice("level", "", {"none", "safe", "fast"});
            }),
            "`level`: expected none, safe or fast, got ''");
  EXPECT_EQ(refusal([] { check_choice("rng", "cuda", {"cpu", "cuda"}); }), "accepted");
}

class Spelled : public testing::Test {
 protected:
  void SetUp() override {
    set_spelling(
        [](std::string_view field) -> std::string_view { return field == "steps" ? "--steps" : ""; });
  }
  void TearDown() override { set_spelling(nullptr); }
};

TEST_F(Spelled, KnownFieldsAreReplacedAndNothingElse) {
  EXPECT_EQ(spelled("`steps`: expected 1 to 1000, got 0"), "--steps: expected 1 to 1000, got 0");
  EXPECT_EQ(spelled("raise `shift` or `steps`"), "raise `shift` or --steps");
  EXPECT_EQ(spelled("steps, 'steps' and `steps"), "steps, 'steps' and `steps");
  EXPECT_EQ(spelled("a lone ` before `steps`"), "a lone ` before --steps");
  EXPECT_EQ(spelled("`steps``steps`"), "--steps--steps");
  EXPECT_EQ(spelled("``"), "``");
  EXPECT_EQ(spelled(""), "");
}

TEST_F(Spelled, WithoutAFrontEndTextsStay) {
  set_spelling(nullptr);
  EXPECT_EQ(spelled("`steps`: expected"), "`steps`: expected");
}

}  // namespace
}  // namespace tachy
