// Finds out which of two experts a file is for, by whole words in a name.
//
// People name files in many ways (wan22_HN, my-LowNoise, Wan2.2_T2V_HIGH_v1, style-high_noise), and other
// words contain the same letters (yellow, slow, thigh, highlight). So a name is cut into words at every
// character that is not a letter, and where a capital follows a small letter or a digit. Then
//
//   high noise, HighNoise, highnoise, noise-high, 高噪声   name the noise: beside them other words do not count
//   high, HIGH, HN                                       name it, unless they belong to the next word: high quality, low poly
//
// low and LN work the same way. A name with words for both experts tells nothing, and neither does a single H
// or L.
#pragma once

#include <string>
#include <string_view>

namespace tachy {

// The expert that a file is for.
enum class AdapterExpert { unsaid, high, low, both };
const char* to_string(AdapterExpert expert);    // "high"
const char* expert_text(AdapterExpert expert);  // "the high-noise expert"

struct NamedExpert {
  AdapterExpert expert = AdapterExpert::unsaid;
  std::string word;      // in the spelling of the name: "HighNoise"
  bool certain = false;  // true if the name mentions the noise
};

NamedExpert expert_in_name(std::string_view name);

}  // namespace tachy
