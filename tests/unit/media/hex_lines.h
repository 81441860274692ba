// Golden files that consist of lines, with bytes as hex digits.
#pragma once

#include <sstream>

#include "media_testing.h"

namespace tachy::testing {

inline std::vector<uint8_t> from_hex(const std::string& digits) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    out.push_back(uint8_t(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return out;
}

// A name, a file, two numbers (width and height, or rate and channels), and the content that is read from the
// file.
struct HexLine {
  std::string name;
  std::vector<uint8_t> file, values;
  int width = 0, height = 0;
};

inline std::vector<HexLine> hex_lines(const std::string& file) {
  std::vector<HexLine> out;
  std::ifstream in(golden(file));
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    HexLine item;
    std::string bytes, values;
    words >> item.name >> bytes >> item.width >> item.height >> values;
    item.file = from_hex(bytes), item.values = from_hex(values);
    out.push_back(std::move(item));
  }
  EXPECT_FALSE(out.empty()) << file;
  return out;
}

}  // namespace tachy::testing
