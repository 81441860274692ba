// Oniguruma, which handles the tokenizer's regular expressions, also exports POSIX's names. Programs that
// link it must still find the C library's functions: GoogleTest's own matchers call them, and so may any
// other library.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tachy {
namespace {

TEST(RegexLibrary, PosixNamesStayTheCLibrarys) {
  for (const char* name : {"regcomp", "regexec", "regfree"}) {
    void* const found = dlsym(RTLD_DEFAULT, name);
    ASSERT_NE(found, nullptr) << name;
    Dl_info where{};
    ASSERT_NE(dladdr(found, &where), 0) << name;
    EXPECT_EQ(std::string(where.dli_fname).find("onig"), std::string::npos)
        << name << ": " << where.dli_fname;
  }
}

TEST(RegexLibrary, MatchersOfTheTestsWork) {
  EXPECT_THAT("a 12", testing::ContainsRegex("[0-9]+"));
  EXPECT_THAT("a", testing::Not(testing::ContainsRegex("[0-9]+")));
}

}  // namespace
}  // namespace tachy
