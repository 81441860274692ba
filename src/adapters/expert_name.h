// Finds out which of two experts a name says that it is for, by whole words.
//
// People name files in many ways (wan22_HN, my-LowNoise, Wan2.2_T2V_HIGH_v1, style-high_noise), and the same
// letters occur inside other words (yellow, slow, thigh, highlight). A name is therefore cut into words at
// every character that is not a letter, and where a capital follows a small letter or a digit. Then
//
//   high noise, HighNoise, highnoise, noise-high, 高噪声   name the noise: beside them other words do not count
//   high, HIGH, HN                                       name it, unless they belong to the next word: high quality, low poly
//
// (low and LN likewise). A name with words for both says nothing, nor does a single H or L.
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
  std::string word;      // as the name spells it: "HighNoise"
  bool certain = false;  // true if the name speaks of the noise
};

NamedExpert expert_in_name(std::string_view name);

}  // namespace tachy
