// Golden files of the text tests (tests/golden/text, made by make.py there).
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace tachy::test {

inline std::string golden_path(const std::string& name) {
  return TACHY_SOURCE_DIR "/tests/golden/text/" + name;
}

inline std::string read_golden(const std::string& name) {
  std::ifstream in(golden_path(name), std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + golden_path(name));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline nlohmann::json golden_json(const std::string& name) {
  return nlohmann::json::parse(read_golden(name));
}

}  // namespace tachy::test
