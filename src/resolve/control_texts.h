// Reads the texts that say how a control is followed. Each function throws invalid_argument, naming the field.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tachy {

std::pair<int64_t, int64_t> parse_keep(const std::string& text);  // "0-16"
std::array<int64_t, 4> parse_outpaint(const std::string& text);   // "64,0,64,0", of which one is not 0
// "0.8", or as many numbers as the model has control blocks: "1,1,0.5".
std::vector<float> parse_strengths(const std::string& text, size_t blocks);

}  // namespace tachy
