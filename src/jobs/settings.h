// The settings of a run as JSON: they are embedded in the output, written beside it, and read back by the
// next run (`from`).
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/tachyscope.h"
#include "base/environment.h"
#include "jobs/settings_encoding.h"

namespace tachy::jobs {

// A file that a run depends on, with the hash of its content.
struct InputFile {
  std::string path;    // or ""
  std::string sha256;  // "": not known yet
};

struct RunSettings {
  VideoRequest request;
  std::string model;  // a folder or a file, or "" for the model that ships
  // Parts that were named separately, under the names of the engine's fields: "vae" …
  std::map<std::string, std::string> parts;
  std::string device;    // the device it runs on: "cpu" or "cuda"; "": not known
  std::string parallel;  // how ranks shared its passes, if that changed its bits; otherwise ""
  std::map<std::string, InputFile> inputs;  // under the names of request_inputs()
  Environment environment;                  // the environment of the run that the settings were read from
  Encoding encoding;                        // how that run's frames were encoded
};

// The key of a video's settings that tells how many frames it has, if it was stopped and has fewer than were asked for.
// A run that repeats the settings makes all of them.
inline constexpr const char* kFramesKept = "frames_kept";

// The key of the model's fingerprint in settings that tell no path (JobSpec::private_paths).
inline constexpr const char* kFingerprint = "model_fingerprint";

// Returns the hash of an input file; throws not_found if it cannot be read.
std::string sha256_of(const std::string& path, const std::string& input);

// Reads the files into the request. If the settings were read `from` an earlier run, throws for a file that
// has changed since, naming both hashes.
void load_inputs(RunSettings& settings);

// Describes how two settings differ ("seed 7, here 8"), ignoring where files lie; "" when they do not. A
// different device alone is no difference (whoever names another one wants it), but is mentioned together
// with others.
std::string difference(const nlohmann::json& earlier, const nlohmann::json& now);

nlohmann::json to_json(const RunSettings& settings);

// Reads JSON that to_json made and that may have been changed in any way since; files keep the paths in it.
// `from` says where the JSON lay, for messages. Throws corrupt or invalid_argument naming the key; the caller
// adds whose settings they are.
RunSettings settings_of_json(const nlohmann::json& settings, const std::string& from);

// Reads a .json beside an output, the video itself or a saved state. Throws corrupt or invalid_argument
// naming the key.
RunSettings read_settings(const std::string& path);

}  // namespace tachy::jobs
