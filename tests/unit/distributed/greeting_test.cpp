// Tests that a greeting lets in whoever has the secret and belongs to the run, and nobody else.
#include "distributed/greeting.h"

#include <gtest/gtest.h>

#include "distributed/frames.h"

namespace tachy::distributed {
namespace {

constexpr const char* kSecret = "the secret of these ranks";
const std::string kWaiting(kNumberBytes, 'w'), kConnecting(kNumberBytes, 'c');

std::string answer_of(const std::string& secret, Seats seats) {
  return answer(secret, challenge(kWaiting), kConnecting, seats);
}

Verdict verdict_on(const std::string& said, int me = 0, int ranks = 4) {
  const auto judged = judge(kSecret, kWaiting, said, me, ranks);
  EXPECT_TRUE(judged.has_value());
  return judged ? judged->verdict : Verdict::other_protocol;
}

TEST(Greeting, LetsInARankOfTheRun) {
  const std::string said = answer_of(kSecret, {.from = 2, .to = 0, .ranks = 4});
  ASSERT_EQ(said.size(), kAnswerBytes);
  const auto judged = judge(kSecret, kWaiting, said, 0, 4);
  ASSERT_TRUE(judged.has_value());
  EXPECT_EQ(judged->verdict, Verdict::welcome);
  EXPECT_EQ(judged->from, 2);
  EXPECT_EQ(read_reply(kSecret, challenge(kWaiting), said, judged->reply), Verdict::welcome);
}

TEST(Greeting, RefusesOthers) {
  EXPECT_EQ(verdict_on(answer_of("another secret", {2, 0, 4})), Verdict::wrong_secret);
  EXPECT_EQ(verdict_on(answer_of(kSecret, {2, 0, 3})), Verdict::other_ranks);
  EXPECT_EQ(verdict_on(answer_of(kSecret, {2, 1, 4})), Verdict::not_awaited) << "it wants another rank";
  EXPECT_EQ(verdict_on(answer_of(kSecret, {0, 0, 4})), Verdict::not_awaited);
  EXPECT_EQ(verdict_on(answer_of(kSecret, {4, 0, 4})), Verdict::not_awaited);
  EXPECT_EQ(verdict_on(answer_of(kSecret, {1, 2, 4}), 2), Verdict::not_awaited) << "a lower rank waits";
  std::string other = answer_of(kSecret, {2, 0, 4});
  other[7] = '2';
  EXPECT_EQ(verdict_on(other), Verdict::other_protocol);
  EXPECT_FALSE(judge(kSecret, kWaiting, std::string(kAnswerBytes, 'x'), 0, 4).has_value());
  EXPECT_FALSE(judge(kSecret, kWaiting, "GET / HTTP/1.1", 0, 4).has_value());
}

TEST(Greeting, EveryByteOfAnAnswerCounts) {
  const std::string said = answer_of(kSecret, {2, 0, 4});
  for (size_t i = 0; i < said.size(); ++i) {
    std::string other = said;
    other[i] = static_cast<char>(other[i] ^ 1);
    const auto judged = judge(kSecret, kWaiting, other, 0, 4);
    EXPECT_TRUE(!judged || judged->verdict != Verdict::welcome) << i;
  }
  EXPECT_EQ(judge(kSecret, std::string(kNumberBytes, 'v'), said, 0, 4)->verdict, Verdict::wrong_secret)
      << "an answer to another challenge is worth nothing";
}

TEST(Greeting, TheConnectingRankChecksTheOtherOne) {
  const std::string said = answer_of(kSecret, {2, 0, 4}), asked = challenge(kWaiting);
  const std::string welcome = reply_to(kSecret, kWaiting, said, Verdict::welcome);
  for (size_t i = 0; i < welcome.size(); ++i) {
    std::string other = welcome;
    other[i] = static_cast<char>(other[i] ^ 4);
    EXPECT_NE(read_reply(kSecret, asked, said, other), Verdict::welcome) << i;
  }
  EXPECT_EQ(read_reply(kSecret, asked, said, reply_to("another secret", kWaiting, said, Verdict::welcome)),
            Verdict::wrong_secret);
  // Its own proof, sent back to it, is not one of the other side's.
  EXPECT_NE(read_reply(kSecret, asked, said, number_bytes(0, 4) + said.substr(said.size() - 32)),
            Verdict::welcome);
  EXPECT_TRUE(is_challenge(asked));
  EXPECT_FALSE(is_challenge(asked.substr(1)));
  EXPECT_FALSE(is_challenge(std::string(kChallengeBytes, 'x')));
}

TEST(Frames, HeadersAreReadAsTheyWereWritten) {
  const std::string bytes = header_bytes({FrameKind::text, uint64_t{1} << 40});
  const auto header = read_header(bytes);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->kind, FrameKind::text);
  EXPECT_EQ(header->bytes, uint64_t{1} << 40);
  EXPECT_FALSE(read_header(bytes.substr(1)).has_value());
  EXPECT_FALSE(read_header(std::string(kHeaderBytes, '\0')).has_value());
  EXPECT_FALSE(read_header(header_bytes({static_cast<FrameKind>(5), 8})).has_value());
  EXPECT_FALSE(read_header(header_bytes({FrameKind::last, kMostReasonBytes + 1})).has_value());
  EXPECT_FALSE(read_header(header_bytes({FrameKind::last, 3})).has_value());
}

TEST(Frames, AReasonNamesTheRankWhereItBegan) {
  const Error nan(ErrorCode::numerical, "NaN in step 3");
  const Error first = error_in(reason_bytes(nan), "rank 2 (on a)");
  EXPECT_EQ(first.code(), ErrorCode::numerical);
  EXPECT_EQ(first.message(), "rank 2 (on a): NaN in step 3");
  EXPECT_EQ(error_in(reason_bytes(first), "rank 1 (on b)").message(), first.message());
  EXPECT_EQ(error_in(number_bytes(77, 4) + "?", "rank 1").code(), ErrorCode::device);
}

}  // namespace
}  // namespace tachy::distributed
