// Tests the messages that a visitor may send, word by word, and the layout of a frame's header.
#include "serve/messages.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tachy::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

WorldInfo steered_info() {
  WorldInfo info{.kind = "universal", .keys = {"W", "S", "A", "D"}};
  info.mouse = true;
  return info;
}
WorldInfo told_info() {
  WorldInfo info{.kind = "causvid", .keys = {}};
  info.takes_prompt = true;
  return info;
}

template <class T>
T parsed(const std::string& text, const WorldInfo& info = steered_info()) {
  return std::get<T>(parse_message(text, info));
}

std::string refusal(const std::string& text, const WorldInfo& info = steered_info()) {
  try {
    parse_message(text, info);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.message();
  }
  return "accepted";
}

TEST(PageMessages, SayWhatIsHeld) {
  const auto input = parsed<InputMessage>(R"({"type":"input","keys":["D","W"],"mouse":[-0.1,1],"stamp":7})");
  EXPECT_THAT(input.action.keyboard, ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(input.action.mouse, ElementsAre(-0.1f, 1.0f));
  EXPECT_EQ(input.stamp, 7u);
  EXPECT_TRUE(input.held());
  const auto none = parsed<InputMessage>(R"({"type":"input","keys":[],"stamp":0})");
  EXPECT_THAT(none.action.keyboard, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(none.action.mouse, ElementsAre(0, 0));
  EXPECT_FALSE(none.held());
  EXPECT_TRUE(parsed<InputMessage>(R"({"type":"input","keys":[],"mouse":[0,0.1],"stamp":0})").held());
}

TEST(PageMessages, GiveOrders) {
  EXPECT_FALSE(parsed<StartMessage>(R"({"type":"start"})").seed.has_value());
  EXPECT_EQ(parsed<StartMessage>(R"({"type":"start","seed":18446744073709551615})").seed, UINT64_MAX);
  EXPECT_EQ(parsed<StartMessage>(R"({"type":"start","prompt":"a \"cat\""})", told_info()).prompt,
            "a \"cat\"");
  parsed<ResetMessage>(R"({"type":"reset"})");
  parsed<StopMessage>(R"({"type":"stop"})");
  EXPECT_TRUE(parsed<RecordMessage>(R"({"type":"record","on":true})").on);
  EXPECT_EQ(parsed<SeenMessage>(R"({"type":"seen","sequence":41})").sequence, 41u);
}

TEST(PageMessages, AreRefusedWhereAnythingIsOdd) {
  for (const char* text : {"", "{", "[]", "7", "null", "\"stop\"",
                           R"({"type":"stop"} )"
                           "x",
                           R"({"type":"stop"}{})", "{\"type\":\"st\xff\"}", "{'type':'stop'}"})
    EXPECT_THAT(refusal(text), HasSubstr("JSON object")) << text;
  EXPECT_THAT(refusal(std::string(1000, '[')), HasSubstr("JSON object"));
  EXPECT_THAT(refusal(R"({"type":"stop","type":"start"})"), HasSubstr("twice"));
  EXPECT_THAT(refusal(R"({"type":"jump"})"), HasSubstr("expected input, start"));
  EXPECT_THAT(refusal(R"({"type":7})"), HasSubstr("expected input, start"));
  EXPECT_THAT(refusal(R"({"keys":[]})"), HasSubstr("no 'type'"));
  EXPECT_THAT(refusal(R"({"type":"stop","now":true})"), HasSubstr("unknown member 'now'"));
  EXPECT_THAT(refusal(R"({"type":"record","on":1})"), HasSubstr("true or false"));
  EXPECT_THAT(refusal(R"({"type":"start","seed":-1})"), HasSubstr("whole number"));
  EXPECT_THAT(refusal(R"({"type":"start","seed":1.5})"), HasSubstr("whole number"));
  EXPECT_THAT(refusal(R"({"type":"start","seed":18446744073709551616})"), HasSubstr("whole number"));
  EXPECT_THAT(refusal(R"({"type":"start","prompt":"a cat"})"), HasSubstr("reads no text"));
  EXPECT_THAT(refusal(R"({"type":"start","prompt":["a"]})", told_info()), HasSubstr("expected a text"));
  EXPECT_THAT(refusal(R"({"type":"seen","sequence":9007199254740993})"), HasSubstr("whole number"));
}

TEST(PageMessages, AreRefusedWithKeysThatAreNone) {
  const auto input = [](const std::string& rest) { return refusal(R"({"type":"input",)" + rest + "}"); };
  EXPECT_THAT(input(R"("keys":["Q"],"stamp":1)"), HasSubstr("this model has no key \"Q\""));
  EXPECT_THAT(input(R"("keys":["w"],"stamp":1)"), HasSubstr("has no key"));
  EXPECT_THAT(input(R"("keys":[0],"stamp":1)"), HasSubstr("has no key"));
  EXPECT_THAT(input(R"("keys":["W","W"],"stamp":1)"), HasSubstr("twice"));
  EXPECT_THAT(input(R"("keys":["W","S","A","D","W"],"stamp":1)"), HasSubstr("at most 4"));
  EXPECT_THAT(input(R"("keys":"W","stamp":1)"), HasSubstr("a list"));
  EXPECT_THAT(input(R"("keys":[])"), HasSubstr("no 'stamp'"));
  EXPECT_THAT(input(R"("keys":[],"stamp":-1)"), HasSubstr("whole number"));
  EXPECT_THAT(input(R"("keys":[],"mouse":[0],"stamp":1)"), HasSubstr("[pitch, yaw]"));
  EXPECT_THAT(input(R"("keys":[],"mouse":[0,1.01],"stamp":1)"), HasSubstr("-1 to 1"));
  EXPECT_THAT(input(R"("keys":[],"mouse":[0,null],"stamp":1)"), HasSubstr("-1 to 1"));
  EXPECT_THAT(refusal(R"({"type":"input","keys":["W"],"stamp":1})", told_info()), HasSubstr("at most 0"));
  EXPECT_THAT(refusal(R"({"type":"input","keys":[],"mouse":[0,0],"stamp":1})", told_info()),
              HasSubstr("this model has no mouse"));
}

TEST(PageMessages, ATicketIsATextAndNothingElse) {
  EXPECT_EQ(parse_ticket(R"({"type":"ticket","ticket":"tt-1"})"), "tt-1");
  EXPECT_EQ(parse_ticket(R"({"ticket":"","type":"ticket"})"), "");
  const auto refused = [](const std::string& text) {
    try {
      return "the ticket " + parse_ticket(text);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument) << text;
      return e.message();
    }
  };
  EXPECT_THAT(refused(""), HasSubstr("JSON object"));
  EXPECT_THAT(refused("tt-1"), HasSubstr("JSON object"));
  EXPECT_THAT(refused(R"({"ticket":"tt-1"})"), HasSubstr("no 'type'"));
  EXPECT_THAT(refused(R"({"type":"start","ticket":"tt-1"})"), HasSubstr("a ticket first"));
  EXPECT_THAT(refused(R"({"type":["ticket"],"ticket":"tt-1"})"), HasSubstr("a ticket first"));
  EXPECT_THAT(refused(R"({"type":"ticket"})"), HasSubstr("no 'ticket'"));
  EXPECT_THAT(refused(R"({"type":"ticket","ticket":7})"), HasSubstr("expected a text"));
  EXPECT_THAT(refused(R"({"type":"ticket","ticket":"x","ticket":"y"})"), HasSubstr("twice"));
  EXPECT_THAT(refused(R"({"type":"ticket","ticket":"x","seed":7})"), HasSubstr("unknown member 'seed'"));
}

TEST(PageMessages, FramesHaveAHeaderOf32Bytes) {
  std::vector<uint8_t> out;
  append_header({.run = 0x01020304, .sequence = 0x05, .frame = 0x0607, .stamp = uint64_t{1} << 56}, out);
  EXPECT_THAT(out, ElementsAre('T', 'Y', 'F', '1', 4, 3, 2, 1, 5, 0, 0, 0, 0, 0, 0, 0, 7, 6, 0, 0, 0, 0, 0, 0,
                               0, 0, 0, 0, 0, 0, 0, 1));
  EXPECT_EQ(out.size(), kFrameHeaderBytes);
}

}  // namespace
}  // namespace tachy::serve
