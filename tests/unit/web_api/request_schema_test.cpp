// Tests the schema of a request against the table of fields and against what is read.
#include "field_case.h"
#include "web_api/fields/field_names.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

TEST(RequestSchema, HasEveryField) {
  const json schema = request_schema();
  EXPECT_EQ(schema["type"], "object");
  EXPECT_EQ(schema["required"], json::array({"prompt"}));
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ(schema["properties"].size(), api_fields().size());
  for (const ApiField& field : api_fields()) {
    ASSERT_TRUE(schema["properties"].contains(field.name)) << field.name;
    const json& one = schema["properties"][field.name];
    EXPECT_TRUE(one.contains("type") || one.contains("oneOf") || one.contains("enum")) << field.name;
    const std::string text = one["description"];
    EXPECT_THAT(text, Not(HasSubstr("`"))) << text;
    for (const std::string& alias : field.aliases) EXPECT_THAT(text, HasSubstr(alias));
    if (!field.aliases.empty()) EXPECT_EQ(one["x-aliases"], json(field.aliases));
  }
}

TEST(RequestSchema, HasTypesAndRanges) {
  const json fields = request_schema()["properties"];
  EXPECT_EQ(fields["num_inference_steps"]["type"], json::array({"integer", "null"}));
  EXPECT_EQ(fields["num_inference_steps"]["minimum"], 1);
  EXPECT_EQ(fields["num_inference_steps"]["maximum"], 1000);
  EXPECT_EQ(fields["flow_shift"]["exclusiveMinimum"], 0);
  EXPECT_EQ(fields["fps"]["minimum"], 0.1);
  EXPECT_EQ(fields["fps"]["maximum"], 240);
  EXPECT_EQ(fields["guidance_scale"]["type"], json::array({"number", "null"}));
  EXPECT_EQ(fields["rng"]["enum"], json::array({"cpu", "cuda", nullptr}));
  EXPECT_EQ(fields["prompt"]["maxLength"], 100'000);
  EXPECT_EQ(fields["prompt"]["type"], "string");
  EXPECT_EQ(fields["seed"]["maximum"], 18446744073709551615U);
  EXPECT_EQ(fields["loras"]["oneOf"].size(), 4U);
  EXPECT_EQ(fields["loras"]["oneOf"][1]["required"], json::array({"name"}));
  EXPECT_EQ(fields["input_reference"]["oneOf"][1]["required"], json::array({"image_url"}));
  EXPECT_EQ(fields["without"]["oneOf"][1]["items"]["type"], "string");
  EXPECT_THAT(fields["seconds"]["description"].get<std::string>(), HasSubstr("in place of num_frames"));
}

}  // namespace
}  // namespace tachy::web_api
