// Tests how a request names the LoRA files that a server offers.
#include "field_case.h"
#include "web_api/fields/loras.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class LoraFields : public FieldCase {
 protected:
  std::vector<std::string> chosen(const http::Request& request) {
    return parse(request).job.settings.request.loras;
  }
  std::vector<std::string> chosen(const json& loras) {
    return chosen(json_request({{"prompt", "a"}, {"loras", loras}}));
  }
  std::string path(const char* file) const { return (folder_ / "loras" / file).string(); }
};

TEST_F(LoraFields, AreFilesByTheirStems) {
  EXPECT_THAT(chosen({{{"name", "film"}, {"strength", 0.5}}, {{"name", "anime"}, {"expert", "low"}}}),
              ElementsAre(path("film.safetensors:0.5"), path("anime.safetensors@low")));
  EXPECT_THAT(chosen(json{{"name", "film"}, {"strength", -2}, {"expert", "high"}}),
              ElementsAre(path("film.safetensors:-2@high")));
  EXPECT_THAT(chosen("film"), ElementsAre(path("film.safetensors")));
  EXPECT_THAT(chosen(json::array({"film", "anime"})),
              ElementsAre(path("film.safetensors"), path("anime.safetensors")));
  EXPECT_THAT(chosen("both.gguf"), ElementsAre(path("both.gguf")));
}

TEST_F(LoraFields, ComeAsTextsToo) {
  const std::string text = R"([{"name": "film", "strength": 0.5}])";
  EXPECT_THAT(chosen(text), ElementsAre(path("film.safetensors:0.5")));
  EXPECT_THAT(chosen(form({{"prompt", "a"}, {"lora", text}})), ElementsAre(path("film.safetensors:0.5")));
  EXPECT_THAT(chosen(form({{"prompt", "a"}, {"lora", R"({"name": "film"})"}})),
              ElementsAre(path("film.safetensors")));
  EXPECT_THAT(chosen(form({{"prompt", "a"}, {"loras[][name]", "film"}, {"loras[][strength]", "0.25"}})),
              ElementsAre(path("film.safetensors:0.25")));
  EXPECT_THAT(chosen(form({{"prompt", "a"}, {"loras[name]", "film"}, {"loras[strength]", "1"}})),
              ElementsAre(path("film.safetensors:1")));
}

TEST_F(LoraFields, AreKeptWithoutPaths) {
  const JobRequest job =
      parse(json_request({{"prompt", "a"}, {"lora", {{"name", "film"}, {"strength", 0.5}}}}));
  EXPECT_EQ(job.given["lora"], json::array({{{"name", "film"}, {"strength", 0.5}}}));
  EXPECT_EQ(job.needs, "wan\nfilm:0.5");
  EXPECT_EQ(parse(json_request({{"prompt", "a"}})).needs, "wan");
  EXPECT_EQ(parse(json_request(json::object()), &job.given).fingerprint, job.fingerprint);
}

TEST_F(LoraFields, NoPathCanBeNamed) {
  const std::string secret = (folder_ / "secret.safetensors").string();
  for (const std::string& name :
       {std::string("../secret"), std::string("../secret.safetensors"), secret, std::string("inside/hidden"),
        std::string("hidden"), std::string("notes"), std::string("notes.txt"), std::string("./film"),
        std::string("film:1"), std::string("film@high"), std::string(""), std::string("."),
        std::string("both"), std::string("file:///etc/passwd"), std::string("FILM")}) {
    const Answer answer = refusal_of("loras", {{{"name", name}}});
    EXPECT_EQ(answer.code, "invalid_value") << name;
    EXPECT_EQ(answer.param, "loras");
    if (name != secret) EXPECT_THAT(answer.message, Not(HasSubstr(folder_.string()))) << answer.message;
  }
  EXPECT_THAT(refusal_of("lora", "flim").message, HasSubstr("near: film"));
  EXPECT_EQ(refusal_of("lora", "flim").param, "lora");
}

TEST_F(LoraFields, EntriesAreChecked) {
  for (const json& wrong :
       {json({{"name", "film"}, {"path", "/x"}}), json({{"strength", 1}}), json({{"name", 5}}), json(5),
        json(true), json({{"name", "film"}, {"strength", "1"}}), json({{"name", "film"}, {"strength", 101}}),
        json({{"name", "film"}, {"expert", "middle"}}), json::array({json::array()}), json("[1"),
        json("[[]]"), json(std::vector<std::string>(65, "film"))}) {
    const Answer answer = refusal_of("loras", wrong);
    EXPECT_EQ(answer.status, 400) << wrong;
    EXPECT_EQ(answer.param, "loras") << wrong;
  }
  EXPECT_TRUE(chosen(json::array()).empty());
  offers_.loras.clear();
  EXPECT_THAT(refusal_of("loras", "film").message, HasSubstr("offers none"));
}

TEST_F(LoraFields, AreListed) {
  std::vector<std::string> names;
  for (const OfferedLora& lora : offered_loras(offers_.loras)) names.push_back(lora.name);
  EXPECT_THAT(names, ElementsAre("anime", "both.gguf", "both.safetensors", "film"));
  EXPECT_TRUE(offered_loras("").empty());
}

}  // namespace
}  // namespace tachy::web_api
