// Environment options (all named TACHY_*) and small text helpers that several folders need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tachy {

std::string env_string(const char* name, std::string_view fallback);

std::vector<std::string> split(std::string_view text, char separator);  // empty parts are dropped

std::string human_bytes(uint64_t bytes);                     // "1.4 GB" (powers of 1000)
std::string human_seconds(double seconds);                   // "0.42 s", "3 min 20 s", "2 h 05 min"
std::string count_of(int64_t count, std::string_view what);  // "1 frame", "5 frames"

}  // namespace tachy
