// Tests JSON as Python's tools write it, including numbers that JSON does not have.
#include "weights/json_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"

namespace tachy {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

// A parsed object is sorted, but the order of PEFT's patterns in the file matters.
TEST(JsonFile, KeysAreToldInTheirOrder) {
  std::string told;
  const auto j =
      parse_json(R"({"z": {"b": 1, "a": NaN}, "y": [{"x": 0}], "b": 2})", "s.json",
                 [&](int depth, const std::string& key) { told += std::to_string(depth) + key + " "; });
  EXPECT_EQ(told, "1z 2b 2a 1y 3x 1b ");
  EXPECT_EQ(j["z"]["b"], 1);
}

// diffusers' DPMSolverMultistepScheduler saves -Infinity, which is not in the JSON standard.
TEST(JsonFile, PythonsInfinitiesDoNotSpoilTheRest) {
  const auto j = parse_json(
      R"({"lambda_min_clipped": -Infinity, "a": [Infinity, NaN], "b": "a \" NaN -Infinity", "flow_shift": 3.0})",
      "s.json");
  EXPECT_EQ(json_double(j, "flow_shift", 1, 0, 100), 3.0);
  EXPECT_EQ(json_string(j, "b", ""), "a \" NaN -Infinity");
  EXPECT_THAT(error_of([&] { json_double(j, "lambda_min_clipped", 1, 0, 100); }),
              AllOf(HasSubstr("lambda_min_clipped"), HasSubstr("-inf")));
  EXPECT_NE(error_of([&] { json_doubles(j, "a", 4); }), "");
}

TEST(JsonFile, OffsetsStayTrue) {
  EXPECT_THAT(error_of([] { parse_json(R"({"x": -Infinity, "y": ?})", "s.json"); }), HasSubstr("byte 22"));
  EXPECT_THAT(error_of([] { parse_json(R"({"x": NaNs})", "s.json"); }), HasSubstr("byte"));
  EXPECT_THAT(error_of([] { parse_json(R"({"x": -Inf})", "s.json"); }), HasSubstr("byte"));
}

}  // namespace
}  // namespace tachy
