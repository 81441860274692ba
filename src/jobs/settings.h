// The settings of a run as JSON: embedded in the output, written beside it, read back by the next run (`from`).
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/tachyscope.h"
#include "base/environment.h"
#include "jobs/settings_encoding.h"

namespace tachy::jobs {

// A file that a run depends on, and what was in it.
struct InputFile {
  std::string path;    // or ""
  std::string sha256;  // "": not known yet
};

struct RunSettings {
  VideoRequest request;
  std::string model;                         // folder or file, or "" for the one that ships
  std::map<std::string, std::string> parts;  // named by themselves, by the engine's fields: "vae" …
  std::string device;                        // where it runs: "cpu" or "cuda"; "": not known
  std::map<std::string, InputFile> inputs;   // by the names of request_inputs()
  Environment environment;                   // of the run that settings were read from,
  Encoding encoding;                         // and how its frames were encoded
};

// The hash of a file that is an input; throws not_found where it cannot be read.
std::string sha256_of(const std::string& path, const std::string& input);

// Reads the files into the request. Throws when one is not
// what it was in the run that settings were read `from`, naming both hashes.
void load_inputs(RunSettings& settings);

// How two settings differ ("seed 7, here 8"), places of files aside; "" when they do not. The device alone is
// no difference (who names another one wants it), but is told where there are others.
std::string difference(const nlohmann::json& earlier, const nlohmann::json& now);

nlohmann::json to_json(const RunSettings& settings);

// From what to_json made, which may hold anything by now; files keep the paths that it has. `from`: where it lay, for messages. Throws
// corrupt or invalid_argument naming the key; the caller says whose settings they are.
RunSettings settings_of_json(const nlohmann::json& settings, const std::string& from);

// From a .json beside an output, from the video itself or from a saved state. Throws corrupt or
// invalid_argument naming the key.
RunSettings read_settings(const std::string& path);

}  // namespace tachy::jobs
