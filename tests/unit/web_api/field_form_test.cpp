// Tests the fields of a multipart body: names with brackets, columns of a list of objects, and hostile names.
#include "field_case.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json values(const std::vector<std::pair<std::string, std::string>>& parts) {
  return fields_of(form(parts)).values;
}

Answer refusal_of_parts(const std::vector<std::pair<std::string, std::string>>& parts) {
  return refused([&] { values(parts); });
}

TEST(FormFields, TextsStayTexts) {
  const Fields fields = fields_of(form({{"prompt", "5"}, {"num_frames", "5"}, {"seed", "true"}}));
  EXPECT_EQ(fields.values, json({{"prompt", "5"}, {"num_frames", "5"}, {"seed", "true"}}));
  EXPECT_FALSE(fields.typed);
}

TEST(FormFields, BracketsAreObjectsAndLists) {
  EXPECT_EQ(values({{"a[b]", "1"}, {"a[c][d]", "2"}}), json({{"a", {{"b", "1"}, {"c", {{"d", "2"}}}}}}));
  EXPECT_EQ(values({{"a[]", "1"}, {"a[]", "2"}}), json({{"a", json::array({"1", "2"})}}));
  EXPECT_EQ(values({{"a[]", "1"}}), json({{"a", json::array({"1"})}}));
}

TEST(FormFields, ColumnsBecomeObjects) {
  const json loras = json::array({{{"name", "x"}, {"strength", "1"}}, {{"name", "y"}, {"strength", "2"}}});
  // All names come first, as the openai client sends them, or one object comes after the other.
  EXPECT_EQ(
      values({{"l[][name]", "x"}, {"l[][name]", "y"}, {"l[][strength]", "1"}, {"l[][strength]", "2"}})["l"],
      loras);
  EXPECT_EQ(
      values({{"l[][name]", "x"}, {"l[][strength]", "1"}, {"l[][name]", "y"}, {"l[][strength]", "2"}})["l"],
      loras);
  EXPECT_EQ(
      values(
          {{"l[0][name]", "x"}, {"l[0][strength]", "1"}, {"l[1][name]", "y"}, {"l[1][strength]", "2"}})["l"],
      loras);
  const Answer answer = refusal_of_parts({{"l[][name]", "x"}, {"l[][name]", "y"}, {"l[][strength]", "1"}});
  EXPECT_EQ(answer.code, "invalid_value");
  EXPECT_EQ(answer.param, "l");
  EXPECT_THAT(answer.message, HasSubstr("2 of `name` and 1 of `strength`"));
}

TEST(FormFields, NumbersWithAGapAreAnObject) {
  EXPECT_EQ(values({{"l[1]", "x"}}), json({{"l", {{"1", "x"}}}}));
}

TEST(FormFields, NothingComesTwiceOrInTwoForms) {
  for (const std::vector<std::pair<std::string, std::string>>& parts :
       {std::vector<std::pair<std::string, std::string>>{{"a", "1"}, {"a", "1"}},
        {{"a", "1"}, {"a[]", "1"}},
        {{"a[]", "1"}, {"a", "1"}},
        {{"a[b]", "1"}, {"a[b]", "2"}},
        {{"a[b]", "1"}, {"a[]", "2"}},
        {{"a[][b]", "1"}, {"a[]", "2"}},
        {{"a[b]", "1"}, {"a[b][c]", "2"}}}) {
    const Answer answer = refusal_of_parts(parts);
    EXPECT_EQ(answer.status, 400) << parts[1].first;
    EXPECT_EQ(answer.param, parts[1].first);
  }
}

TEST(FormFields, MalformedNamesAreRefused) {
  const std::string nul("a\0b", 3), deep = "a[b][c][d][e]", longest(201, 'a');
  for (const std::string& name :
       {std::string(""), std::string("[a]"), std::string("a["), std::string("a]"), std::string("a[b"),
        std::string("a[b]c"), std::string("a[[b]]"), std::string("a[b]]"), std::string("a[][]"),
        std::string("a[][b][c]"), std::string("a[][b][]"), deep, longest, nul, std::string("\xff"),
        std::string("a\xed\xa0\x80")}) {
    const Answer answer = refusal_of_parts({{name, "1"}});
    EXPECT_EQ(answer.code, "invalid_value") << name;
    EXPECT_EQ(answer.status, 400);
    EXPECT_NO_THROW(json(answer.message).dump());  // a name that is not UTF-8 is shown otherwise
    EXPECT_NO_THROW(json(answer.param).dump());
  }
}

TEST(FormFields, TextsAreUtf8WithoutNul) {
  EXPECT_EQ(refusal_of_parts({{"prompt", std::string("a\0b", 3)}}).param, "prompt");
  EXPECT_EQ(refusal_of_parts({{"prompt", "\xc3"}}).param, "prompt");
  EXPECT_EQ(values({{"prompt", "größer 🐈"}})["prompt"], "größer 🐈");
}

TEST(FormFields, AFileIsItsPlace) {
  http::Request request = form({{"prompt", "a cat"}, {"input_reference", ""}, {"more[file]", "0"}});
  request.parts[1].file = std::make_shared<http::SpooledFile>("/nowhere", "cat.png", "image/png");
  const Fields fields = fields_of(request);
  EXPECT_EQ(fields.values["input_reference"], json({{"file", 0}}));
  EXPECT_EQ(fields.values["more"], json({{"file", "0"}}));  // a text of the caller is no file
  ASSERT_EQ(fields.files.size(), 1U);
  EXPECT_EQ(fields.files[0]->filename(), "cat.png");
}

TEST(FormFields, AFileThatNobodyChoseIsLeftOut) {
  http::Request request = form({{"prompt", "a cat"}, {"input_reference", ""}});
  request.parts[1].file = std::make_shared<http::SpooledFile>("/nowhere", "", "application/octet-stream");
  EXPECT_EQ(fields_of(request).values, json({{"prompt", "a cat"}}));
  request.parts[1].file->bytes = 1;
  EXPECT_EQ(fields_of(request).files.size(), 1U);
}

TEST(JsonFields, ABodyIsAnObjectOfJson) {
  const Fields fields = fields_of(json_request({{"prompt", "a cat"}, {"seed", 7}}));
  EXPECT_TRUE(fields.typed);
  EXPECT_EQ(fields.values["seed"], 7);
  EXPECT_TRUE(fields_of({}).values.empty());
}

TEST(JsonFields, OtherBodiesAreRefused) {
  std::string deep = R"({"a":)";
  for (int i = 0; i < 5000; ++i) deep += "[";
  for (const std::string& text :
       {std::string(""), std::string("[]"), std::string("5"), std::string("\"a\""), std::string("null"),
        std::string("{"), std::string("{\"a\":1,}"), std::string("{\"a\":1} x"), std::string("{'a':1}"),
        std::string("{\"a\":NaN}"), std::string("{\"a\":1e999}"), std::string("{\"a\":\"\\u0000\"}"),
        std::string("{\"a\\u0000\":1}"), std::string("{\"a\":\"\xff\"}"), std::string("{\"a\":\"\\ud800\"}"),
        std::string("{\"a\":1,\"a\":1}"), std::string("{\"b\":{\"a\":1,\"c\":2,\"a\":1}}"), deep}) {
    const Answer answer = refused([&] { fields_of(json_text_request(text)); });
    EXPECT_EQ(answer.code, "invalid_value") << text.substr(0, 40);
    EXPECT_EQ(answer.status, 400);
    EXPECT_NO_THROW(json(answer.message).dump());
  }
  // The same key in two objects is no repetition.
  EXPECT_NO_THROW(fields_of(json_text_request(R"({"l":[{"a":1},{"a":1}],"a":{"a":1}})")));
}

TEST(JsonFields, OtherMediaTypesAreRefused) {
  http::Request request = json_text_request("{}");
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"}) {
    request.headers = {{"Content-Type", type}};
    EXPECT_EQ(refused([&] { fields_of(request); }).status, 415) << type;
  }
  for (const char* type :
       {"Application/JSON", "application/merge-patch+json", "application/json;charset=utf-8", ""}) {
    request.headers = {{"Content-Type", type}};
    EXPECT_NO_THROW(fields_of(request)) << type;
  }
}

}  // namespace
}  // namespace tachy::web_api
