// The part `encoding` of a run's settings: how its frames were encoded, where the command line said so. The numbers of two formats
// mean different things, so a run that is repeated in another format has its own.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tachy::jobs {

struct Encoding {
  std::string format;  // "mp4" or "webm"; empty: of no format that has a choice, or nothing was said
  int crf = -1;        // as in VideoOptions
  std::string speed;   // the same
};

// The encoding that is given for an output, completed by that of the run that it repeats.
Encoding encoding_of(const std::filesystem::path& output, int crf, const std::string& speed,
                     const Encoding& earlier);

void add_encoding(nlohmann::json& settings, const Encoding& encoding);  // nothing where nothing was said
// Returns what settings say of it. Throws corrupt, naming the key.
Encoding encoding_in(const nlohmann::json& settings);

}  // namespace tachy::jobs
