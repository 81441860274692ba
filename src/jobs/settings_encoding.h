// The part `encoding` of a run's settings: how its frames were encoded, if the command line stated that. The
// same numbers mean different things in two formats, so a run that is repeated in another format does not
// inherit them.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tachy::jobs {

struct Encoding {
  // "mp4" or "webm"; empty for other formats, which have no such choice, and if nothing was stated.
  std::string format;
  int crf = -1;       // as in VideoOptions
  std::string speed;  // as in VideoOptions
};

// Returns the encoding that was given for an output, completed from the run that it repeats.
Encoding encoding_of(const std::filesystem::path& output, int crf, const std::string& speed,
                     const Encoding& earlier);

// Adds nothing if nothing was stated.
void add_encoding(nlohmann::json& settings, const Encoding& encoding);
// Returns the encoding that settings state. Throws corrupt, naming the key.
Encoding encoding_in(const nlohmann::json& settings);

}  // namespace tachy::jobs
