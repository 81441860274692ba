// The list of environment variables must be the ones that the sources read, and it states the effect of each
// on a run's settings.
#include "base/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace tachy {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

const fs::path kSource = TACHY_SOURCE_DIR;

std::string text_of_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Calls `body` with every source file of the library, the command line and the Python package, and its
// content.
template <class Body>
void for_each_source(const Body& body) {
  size_t files = 0;
  for (const char* folder : {"src", "apps", "python"})
    for (const auto& entry : fs::recursive_directory_iterator(kSource / folder)) {
      static const Names kinds = {".h", ".c", ".cpp", ".cu", ".cuh", ".inc", ".in", ".py"};
      if (!entry.is_regular_file() || !kinds.contains(entry.path().extension().string())) continue;
      body(fs::relative(entry.path(), kSource).string(), text_of_file(entry.path()));
      ++files;
    }
  EXPECT_GT(files, 500u) << "the sources were not found";
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Returns the text after each place where the word occurs as a whole word.
std::vector<std::string> behind(const std::string& text, const std::string& word) {
  std::vector<std::string> out;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at > 0 && is_word(text[at - 1])) || (end < text.size() && is_word(text[end]))) continue;
    out.push_back(text.substr(end, 100));
  }
  return out;
}

// Returns NAME for `("NAME"` or `= "NAME"`, or nothing for anything else.
std::string quoted_after(const std::string& text, char before) {
  size_t at = text.find_first_not_of(" \n");
  if (at == text.npos || text[at] != before) return "";
  at = text.find_first_not_of(" \n", at + 1);
  if (at == text.npos || text[at] != '"') return "";
  return text.substr(at + 1, text.find('"', at + 1) - at - 1);
}

const std::string kPython = "python/tachyscope/compat/_switches.py";
const std::string kOwn[] = {"src/base/env.cpp", "src/base/env.h", "src/base/environment.cpp", kPython};

TEST(EnvironmentList, IsWhatTheSourcesRead) {
  Names read, listed;
  for_each_source([&](const std::string& name, const std::string& text) {
    const bool python = name.ends_with(".py");
    if (std::ranges::find(kOwn, name) != std::end(kOwn)) return;
    for (const std::string& rest : behind(text, python ? "env_switch" : "env_string"))
      if (const std::string variable = quoted_after(rest, '('); !variable.empty()) read.insert(variable);
  });
  for (const EnvironmentVariable& v : environment_variables()) {
    if (v.reader.empty()) {
      EXPECT_TRUE(listed.insert(std::string(v.name)).second) << v.name << " is listed twice";
    } else {
      EXPECT_EQ(v.effect, Effect::recorded)
          << v.name << ": a library's variable is here because it changes bits";
    }
  }
  EXPECT_EQ(listed, read) << "src/base/environment.cpp (left) and what is read (right) differ";
}

// A name that is put together at run time, or another function that reads the environment, would evade the
// list.
TEST(EnvironmentList, NothingReadsTheEnvironmentOtherwise) {
  for_each_source([&](const std::string& name, const std::string& text) {
    const bool python = name.ends_with(".py"), own = std::ranges::find(kOwn, name) != std::end(kOwn);
    for (const char* word : {"environ", "getenv", "secure_getenv"})
      for (const std::string& rest : behind(text, word))
        EXPECT_TRUE(name == kOwn[0] || name == kPython)
            << name << ": " << word << rest.substr(0, rest.find('\n'))
            << ": the environment is read by env_string (base/env.h), in Python by env_switch (" << kPython
            << ")";
    for (const std::string& rest : behind(text, python ? "env_switch" : "env_string"))
      EXPECT_TRUE(own || !rest.starts_with("(") || !quoted_after(rest, '(').empty())
          << name << ": env_string or env_switch" << rest.substr(0, rest.find('\n'))
          << ": the name is to be seen where it is read";
  });
}

TEST(EnvironmentList, WhatIsSetOfTheRecordedOnesIsRecorded) {
  for (const EnvironmentVariable& v : environment_variables()) {
    const std::string name(v.name);
    const char* const old = std::getenv(name.c_str());
    const std::string before = old ? old : "";
    setenv(name.c_str(), "some value", 1);
    const Environment set = recorded_environment();
    setenv(name.c_str(), "", 1);
    const Environment empty = recorded_environment();
    old ? setenv(name.c_str(), before.c_str(), 1) : unsetenv(name.c_str());
    EXPECT_EQ(set.contains(name), v.effect == Effect::recorded && v.field.empty()) << name;
    EXPECT_FALSE(empty.contains(name)) << name << " is as if it were not set";
    EXPECT_TRUE(v.effect == Effect::recorded || v.field.empty()) << name;
  }
}

TEST(EnvironmentList, DifferencesAreTold) {
  const Environment then = {{"A", "1"}, {"B", "2"}, {"C", "3"}}, now = {{"B", "4"}, {"C", "3"}, {"D", "5"}};
  EXPECT_EQ(environment_difference(then, now),
            "A was 1 and is not set now, B was 2 and is 4 now, D was not set and is 5 now");
  EXPECT_EQ(environment_difference(then, then), "");
  EXPECT_EQ(environment_difference({}, {}), "");
}

}  // namespace
}  // namespace tachy
