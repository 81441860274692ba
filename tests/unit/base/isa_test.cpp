// Tests the limit on instruction sets: names, and sets that this CPU does not have.
#include "base/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"

namespace tachy {
namespace {

std::string refusal(const char* name) {
  try {
    isa_named(name, "TACHY_ISA");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.message();
  }
  return "accepted";
}

TEST(Isa, UnknownNamesSayWhatWouldWork) {
  for (const char* name : {"avx1024", "AVX2", "", "avx2,sse4"})
    EXPECT_THAT(refusal(name),
                testing::AllOf(testing::StartsWith("TACHY_ISA: expected "), testing::HasSubstr("native"),
                               testing::HasSubstr("got '" + std::string(name) + "'"),
                               testing::Not(testing::HasSubstr("this CPU"))));
}

TEST(Isa, NativeIsEverywhere) { EXPECT_EQ(isa_named("native", "TACHY_ISA"), Isa::native); }

// The system's list of the CPU's features does not depend on the code under test.
TEST(Isa, NoMoreThanTheCpuHas) {
  std::string flags;
#if defined(__x86_64__)
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; flags.empty() && std::getline(in, line);)
    if (line.starts_with("flags")) flags = line + " ";
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo names no flags";
#endif
  for (const auto& [name, flag] :
       {std::pair{"sse4", " sse4_2 "}, {"avx2", " avx2 "}, {"avx512", " avx512bw "}}) {
    if (flags.find(flag) != std::string::npos) {
      EXPECT_EQ(refusal(name), "accepted");
    } else {
      EXPECT_THAT(refusal(name), testing::HasSubstr("this CPU does not have")) << name;
    }
  }
}

}  // namespace
}  // namespace tachy
