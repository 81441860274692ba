// Tests the way from a body to a job: every field by JSON and by multipart, what belongs together, and what is kept.
#include "field_case.h"
#include "web_api/fields/field_names.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// A value that the field may hold and that is not its default.
json sample(const RequestField& field) {
  if (const auto* choices = std::get_if<Choices>(&field.allowed)) return choices->back();
  return std::visit(
      [&](auto member) -> json {
        using T = std::decay_t<decltype(*value_in(VideoRequest().*member))>;
        if constexpr (std::is_same_v<T, std::string>)
          return "some text";
        else if constexpr (std::is_same_v<T, std::vector<std::string>>)
          return json::array({"one", "two,three"});
        else if constexpr (std::is_same_v<T, uint64_t>)
          return std::numeric_limits<uint64_t>::max();
        else if constexpr (std::is_same_v<T, int>)
          return 9;
        else
          return 0.625;
      },
      field.member);
}

json value_of(const VideoRequest& request, const RequestField& field) {
  return std::visit(
      [&](auto member) {
        const auto* value = value_in(request.*member);
        return value ? json(*value) : json();
      },
      field.member);
}

class EveryField : public FieldCase {
 protected:
  void check(const std::string& name, const RequestField& field) {
    const json value = sample(field);
    const JobRequest typed = parse(json_request({{"prompt", "a cat"}, {name, value}}));
    EXPECT_EQ(value_of(typed.job.settings.request, field), value) << name;
    EXPECT_EQ(typed.given[name], value);
    std::vector<std::pair<std::string, std::string>> parts = {{"prompt", "a cat"}};
    if (value.is_array())
      for (const json& one : value) parts.emplace_back(name + "[]", one);
    else
      parts.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
    const JobRequest text = parse(form(parts));
    EXPECT_EQ(value_of(text.job.settings.request, field), value) << name;
    EXPECT_EQ(text.given, typed.given);
    EXPECT_EQ(text.job.drawn, typed.job.drawn);
    if (!text.seed_drawn) EXPECT_EQ(text.fingerprint, typed.fingerprint);
    // What is kept makes the same job again.
    const JobRequest again = parse(json_request(json::object()), &typed.given);
    EXPECT_EQ(value_of(again.job.settings.request, field), value) << name;
    EXPECT_EQ(again.fingerprint, typed.fingerprint);
    const JobRequest extra = parse(json_request({{"prompt", "a cat"}, {"extra_params", {{name, value}}}}));
    EXPECT_EQ(extra.fingerprint, typed.fingerprint);
  }
};

TEST_F(EveryField, ComesThroughJsonAndMultipart) {
  int checked = 0;
  for (const RequestField& field : request_fields()) {
    if (field.name == std::string("prompt") || field.name == std::string("loras")) continue;
    check(field.key, field);
    if (field.name != std::string(field.key)) check(field.name, field);
    ++checked;
  }
  EXPECT_GE(checked, 45);
}

TEST_F(EveryField, RefusesAnotherKind) {
  for (const ApiField& field : api_fields()) {
    if (field.name == "prompt") continue;
    for (const json& value : {json(json::array({1})), json({{"a", 1}}), json(json::array({json::array()}))}) {
      const Answer answer = refusal_of(field.name, value);
      EXPECT_EQ(answer.status, 400) << field.name << " " << value;
      if (field.name != "extra_params") EXPECT_EQ(answer.param, field.name) << value;
    }
    const bool text = field.setting && sample(*field.setting).is_string();
    if (text) EXPECT_EQ(refusal_of(field.name, 5).param, field.name);
  }
}

TEST_F(EveryField, KeepsItsRange) {
  for (const RequestField& field : request_fields()) {
    const auto* range = std::get_if<Range>(&field.allowed);
    if (!range) continue;
    const std::string name = field.key;
    EXPECT_EQ(refusal_of(name, range->above ? range->least : range->least - 1).code, "invalid_value") << name;
    EXPECT_EQ(refusal_of(name, range->above ? range->least : range->least - 1).param, name);
    const bool measure = name == "width" || name == "height" || name == "num_frames";
    EXPECT_EQ(refusal_of(name, range->most + 1).code, measure ? "over_limit" : "invalid_value") << name;
    EXPECT_EQ(refusal_of_text(name, "five").param, name);
    EXPECT_EQ(refusal_of_text(name, "").code, "invalid_value");
    EXPECT_EQ(refusal_of_text(name, "nan").code, "invalid_value");
    EXPECT_EQ(refusal_of_text(name, "inf").code, "invalid_value");
    EXPECT_EQ(refusal_of(name, "5").code, "invalid_value") << name;  // JSON has types
    EXPECT_EQ(refusal_of(name, true).code, "invalid_value");
  }
}

using Requests = FieldCase;

TEST_F(Requests, AnEmptyOneNeedsAPrompt) {
  const Answer answer = refusal(json_request(json::object()));
  EXPECT_EQ(answer.code, "missing_parameter");
  EXPECT_EQ(answer.param, "prompt");
  EXPECT_EQ(refusal(http::Request()).code, "missing_parameter");
  EXPECT_EQ(refusal(json_request({{"prompt", " "}})).code, "invalid_value");
}

TEST_F(Requests, APromptHasACertainLength) {
  std::string cats;
  for (int i = 0; i < 100'000; ++i) cats += "ü";
  EXPECT_EQ(parse(json_request({{"prompt", cats}})).job.settings.request.prompt, cats);
  const Answer answer = refusal(json_request({{"prompt", cats + "x"}}));
  EXPECT_EQ(answer.code, "invalid_value");
  EXPECT_EQ(answer.param, "prompt");
  EXPECT_LT(answer.message.size(), 300U);
  EXPECT_EQ(refusal_of("negative_prompt", cats + "x").param, "negative_prompt");
  EXPECT_EQ(refusal_of("sampler", std::string(100'000, 'x')).param, "sampler");
  EXPECT_EQ(refusal_of("sampler", std::string(1001, 'x')).code, "invalid_value");
  EXPECT_EQ(
      parse(json_request({{"prompt", "a"}, {"sampler", cats.substr(0, 2000)}})).job.settings.request.sampler,
      cats.substr(0, 2000));
}

TEST_F(Requests, AnUnknownFieldIsNamed) {
  const Answer answer = refusal_of("num_framse", 5);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.code, "unknown_parameter");
  EXPECT_EQ(answer.param, "num_framse");
  EXPECT_THAT(answer.message, HasSubstr("near: num_frames"));
  for (const char* name :
       {"__proto__", "constructor", "init_latents", "output", "device", "vae", "image_embeds"}) {
    EXPECT_EQ(refusal_of(name, "x").code, "unknown_parameter") << name;
    EXPECT_EQ(refusal_of("extra_params", {{name, "x"}}).code, "unknown_parameter") << name;
  }
  EXPECT_EQ(refusal_of("input_reference", {{"__proto__", "x"}}).param, "input_reference");
}

TEST_F(Requests, NothingIsGivenTwice) {
  const std::pair<json, const char*> rows[] = {
      {{{"num_frames", 5}, {"frames", 5}}, "num_frames"},
      {{{"num_frames", 5}, {"extra_params", {{"num_frames", 5}}}}, "num_frames"},
      {{{"num_frames", 5}, {"extra_params", {{"frames", 5}}}}, "num_frames"},
      {{{"image", "x"}, {"input_reference", "x"}}, "input_reference"},
      {{{"lora", "anime"}, {"loras", "film"}}, "loras"},
      {{{"seconds", 1}, {"num_frames", 5}}, "seconds"},
      {{{"seconds", "1"}, {"frames", 5}}, "seconds"},
      {{{"size", "64x64"}, {"width", 64}}, "size"},
      {{{"size", "64x64"}, {"extra_params", {{"height", 64}}}}, "size"},
      {{{"extra_params", {{"extra_params", json::object()}}}}, "extra_params"},
  };
  for (auto [body, param] : rows) {
    body["prompt"] = "a cat";
    const Answer answer = refusal(json_request(body));
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(answer.param, param) << body;
  }
}

TEST_F(Requests, SecondsAreFrames) {
  const auto frames = [&](const json& body) {
    json all = body;
    all["prompt"] = "a cat";
    return *parse(json_request(all)).job.settings.request.frames;
  };
  EXPECT_EQ(frames({{"seconds", 4}, {"fps", 16}}), 65);
  EXPECT_EQ(frames({{"seconds", "4"}, {"fps", 16}}), 65);
  EXPECT_EQ(frames({{"seconds", 5}, {"fps", 25}}), 125);  // 31.25 groups of four
  EXPECT_EQ(frames({{"seconds", 0.01}, {"fps", 16}}), 1);
  EXPECT_EQ(frames({{"seconds", 1.5}, {"fps", 4}}), 9);  // a half is rounded up
  const double fps = *models_.open("wan")->defaults().fps;
  EXPECT_EQ(frames({{"seconds", 3}}), 4 * std::round(3 * fps / 4) + 1);
  EXPECT_EQ(*parse(form({{"prompt", "a"}, {"seconds", "2.5"}, {"fps", "16"}})).job.settings.request.frames,
            41);
  for (const json& wrong : {json(0), json(-1), json(""), json("4s"), json("nan"), json(1e300), json(true)}) {
    EXPECT_EQ(refusal_of("seconds", wrong).param, "seconds") << wrong;
    EXPECT_EQ(refusal_of("seconds", wrong).code, "invalid_value") << wrong;
  }
  const Answer answer = refusal_of("seconds", 100'000);
  EXPECT_EQ(answer.code, "over_limit");
  EXPECT_GT(answer.nearest["seconds"], 0);
}

// The rates that a file can have: others would fail when the video is made.
TEST_F(Requests, RatesThatNoFileHasAreRefused) {
  for (const double wrong : {1e-300, 0.0999, 241.0, 1e300}) {
    const Answer answer = refusal_of("fps", wrong);
    EXPECT_EQ(answer.status, 400) << wrong;
    EXPECT_EQ(answer.param, "fps") << wrong;
    EXPECT_EQ(refusal(json_request({{"prompt", "a"}, {"seconds", 1e9}, {"fps", wrong}})).param, "fps");
  }
  for (const double right : {0.1, 240.0})
    EXPECT_EQ(*parse(json_request({{"prompt", "a"}, {"fps", right}})).job.settings.request.fps, right);
  const Answer answer = refusal(json_request({{"prompt", "a"}, {"seconds", 1e9}, {"fps", 240}}));
  EXPECT_EQ(answer.status, 422);
  EXPECT_EQ(answer.param, "seconds");
  const double nearest = answer.nearest["seconds"];
  EXPECT_LT(
      *parse(json_request({{"prompt", "a"}, {"seconds", nearest}, {"fps", 240}})).job.settings.request.frames,
      65536);
}

TEST_F(Requests, SizesAreTexts) {
  for (const char* text : {"832x480", "832X480", "832*480"}) {
    const JobRequest job = parse(json_request({{"prompt", "a cat"}, {"size", text}}));
    EXPECT_EQ(job.job.settings.request.width, 832);
    EXPECT_EQ(job.job.settings.request.height, 480);
  }
  for (const json& wrong :
       {json("832"), json("x480"), json("832x"), json("832x480x3"), json("-8x8"), json("0x8"), json(""),
        json("8 x 8"), json("8.5x8"), json("99999999999x8"), json(832), json("0x1p3x8")}) {
    EXPECT_EQ(refusal_of("size", wrong).code, "invalid_value") << wrong;
    EXPECT_EQ(refusal_of("size", wrong).param, "size");
  }
  const Answer answer = refusal_of("size", "100000x480");
  EXPECT_EQ(answer.status, 422);
  const VideoRequest& own = models_.open("")->defaults();
  EXPECT_EQ(answer.nearest, json({{"size", fmt::format("{}x{}", *own.width, *own.height)}}));
  EXPECT_THAT(answer.message, HasSubstr(answer.nearest["size"].get<std::string>()));
}

TEST_F(Requests, ASeedIsDrawnAndKept) {
  const JobRequest one = parse(json_request({{"prompt", "a cat"}})),
                   two = parse(json_request({{"prompt", "a cat"}}));
  EXPECT_TRUE(one.seed_drawn && one.job.drawn);
  EXPECT_NE(one.job.settings.request.seed, two.job.settings.request.seed);
  EXPECT_EQ(one.fingerprint, two.fingerprint);  // a repeated request means the same job
  EXPECT_TRUE(parse(json_request({{"prompt", "a cat"}, {"seed", -1}})).seed_drawn);
  EXPECT_EQ(parse(form({{"prompt", "a cat"}, {"seed", "-1"}})).fingerprint, one.fingerprint);
  const JobRequest zero = parse(json_request({{"prompt", "a cat"}, {"seed", 0}}));
  EXPECT_FALSE(zero.seed_drawn);
  EXPECT_NE(zero.fingerprint, one.fingerprint);
  const uint64_t exact = 9'007'199'254'740'993;  // not a double
  EXPECT_EQ(parse(json_request({{"prompt", "a cat"}, {"seed", exact}})).job.settings.request.seed, exact);
  for (const json& wrong : {json(-2), json(1.5), json("7"), json(1e300), json(true)})
    EXPECT_EQ(refusal_of("seed", wrong).param, "seed") << wrong;
  EXPECT_EQ(refusal_of_text("seed", "18446744073709551616").param, "seed");
  EXPECT_EQ(refusal(json_text_request(R"({"prompt":"a","seed":18446744073709551616})")).param, "seed");
}

TEST_F(Requests, ModelsAreNames) {
  EXPECT_EQ(parse(json_request({{"prompt", "a cat"}})).model, "wan");
  EXPECT_EQ(parse(json_request({{"prompt", "a cat"}, {"model", "other"}})).model, "other");
  EXPECT_THAT(parse(json_request({{"prompt", "a cat"}})).job.settings.model,
              testing::EndsWith("models/sprites"));
  for (const char* name : {"wam", "../wan", "/models/sprites", "sora-2"}) {
    const Answer answer = refusal_of("model", name);
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(answer.code, "model_not_found");
    EXPECT_EQ(answer.param, "model");
  }
  EXPECT_EQ(refusal_of("model", "maze").code, "invalid_value");
  EXPECT_EQ(refusal_of("model", "").code, "invalid_value");
}

TEST_F(Requests, SwitchesTakeBooleans) {
  EXPECT_EQ(parse(json_request({{"prompt", "a"}, {"free_noise", false}})).job.settings.request.free_noise,
            "off");
  EXPECT_EQ(parse(form({{"prompt", "a"}, {"free_noise", "false"}})).job.settings.request.free_noise, "off");
  EXPECT_EQ(refusal_of("free_noise", "false").param, "free_noise");
  EXPECT_EQ(refusal_of("free_noise", 0).param, "free_noise");
}

TEST_F(Requests, PrioritiesAreForSome) {
  EXPECT_EQ(refusal_of("priority", 1).param, "priority");
  EXPECT_EQ(refusal_of("priority", 1).code, "forbidden");
  EXPECT_EQ(parse(json_request({{"prompt", "a cat"}, {"priority", 0}})).priority, 0);
  caller_.priority = true;
  EXPECT_EQ(parse(json_request({{"prompt", "a cat"}, {"priority", -10}})).priority, -10);
  EXPECT_EQ(refusal_of("priority", 11).code, "invalid_value");
}

TEST_F(Requests, EncodingIsChosen) {
  const JobRequest job = parse(form({{"prompt", "a cat"}, {"crf", "0"}, {"encode_speed", "slow"}}));
  EXPECT_EQ(job.job.crf, 0);
  EXPECT_EQ(job.job.encode_speed, "slow");
  EXPECT_EQ(refusal_of("crf", 52).param, "crf");
  EXPECT_EQ(refusal_of("encode_speed", "warp").param, "encode_speed");
}

TEST_F(Requests, ExtraParamsMayBeAText) {
  const JobRequest job =
      parse(form({{"prompt", "a cat"}, {"extra_params", R"({"num_frames": 9, "negative_prompt": "5"})"}}));
  EXPECT_EQ(job.job.settings.request.frames, 9);
  EXPECT_EQ(job.job.settings.request.negative_prompt, "5");
  EXPECT_EQ(refusal_of_text("extra_params", R"({"num_frames": "9"})").param, "num_frames");
  EXPECT_EQ(refusal_of_text("extra_params", R"({"seed": 1, "seed": 1})").param, "extra_params");
  for (const char* wrong : {"", "5", "[]", "{", "null"})
    EXPECT_EQ(refusal_of_text("extra_params", wrong).param, "extra_params") << wrong;
}

TEST_F(Requests, FingerprintsCompareWhatIsMeant) {
  const auto fingerprint = [&](const json& body) { return parse(json_request(body)).fingerprint; };
  const std::string one = fingerprint({{"prompt", "a cat"}, {"num_frames", 9}, {"seed", 1}});
  EXPECT_EQ(one, parse(form({{"seed", "1"}, {"prompt", "a cat"}, {"frames", "9"}})).fingerprint);
  EXPECT_EQ(one, fingerprint({{"prompt", "a cat"}, {"num_frames", 9}, {"seed", 1}, {"model", "wan"}}));
  EXPECT_NE(one, fingerprint({{"prompt", "a cat"}, {"num_frames", 13}, {"seed", 1}}));
  EXPECT_NE(one, fingerprint({{"prompt", "a cat"}, {"num_frames", 9}, {"seed", 1}, {"model", "other"}}));
  EXPECT_NE(one, fingerprint({{"prompt", "a cat"}, {"num_frames", 9}, {"seed", 1}, {"crf", 20}}));
}

}  // namespace
}  // namespace tachy::web_api
