// Errors carry a code, a formatted text and the place that threw.
#include "base/error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tachy {
namespace {

TEST(Error, FailFormatsAndKnowsItsPlace) {
  const auto line = std::source_location::current().line() + 2;
  try {
    fail(ErrorCode::corrupt, "{}: expected {} bytes, got {}", "a.safetensors", 8, 3);
  } catch (const std::exception& caught) {
    const auto& error = dynamic_cast<const Error&>(caught);
    EXPECT_STREQ(error.what(), "a.safetensors: expected 8 bytes, got 3");
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.where().line(), line);
    EXPECT_NE(std::string(error.where().file_name()).find("error_test.cpp"), std::string::npos);
    return;
  }
  FAIL();
}

TEST(Error, CheckAndRequireThrowOnlyWhenFalse) {
  EXPECT_NO_THROW(check(true, ErrorCode::io, "unused {}", 1));
  EXPECT_NO_THROW(require(true, "unused"));
  try {
    check(false, ErrorCode::io, "disk");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
  }
  try {
    require(false, "steps: expected 1 or more, got {}", 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(error.message(), "steps: expected 1 or more, got 0");
  }
}

TEST(Error, CodesHaveDistinctNames) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::internal); ++code)
    names.insert(to_string(static_cast<ErrorCode>(code)));
  EXPECT_EQ(names.size(), static_cast<size_t>(ErrorCode::internal) + 1);
  EXPECT_EQ(names.count("unknown"), 0u);
}

}  // namespace
}  // namespace tachy
