// How the command line spells the fields of a request (request/request_fields.h): the names of their options,
// and the name that replaces a field in backticks in messages.
#pragma once

#include <span>
#include <string_view>

namespace tachy::cli {

struct FieldOption {
  std::string_view field;
  // The names of the option, including spellings of other programs; messages use the first long name.
  const char* names;
  const char* group = nullptr;  // in `generate --help`
};

inline constexpr const char kPromptGroup[] = "Options", kPartsGroup[] = "Parts of the model",
                            kImageGroup[] = "Image to video", kFootageGroup[] = "Video to video",
                            kSpeechGroup[] = "Talking photo", kVideoGroup[] = "Video",
                            kSamplingGroup[] = "Sampling", kWindowGroup[] = "Long clips",
                            kAdapterGroup[] = "Adapters", kRunningGroup[] = "Running";

// Options for all fields and inputs of a request, in the order of `generate --help`.
std::span<const FieldOption> request_options();

// Options for the engine's fields that name parts of a model (api/fields.h).
std::span<const FieldOption> model_part_options();

// The help of --device in every command; by default the machine chooses.
inline constexpr const char* kDeviceHelp =
    "where to run: auto (default, unless TACHY_DEVICE says otherwise: a GPU if there is one that this build "
    "can use), cpu, cuda, cuda:1 …";

// Returns "--steps" for "steps", and "" for a name that is not a field. This is a Spelling (base/field.h).
std::string_view option_of(std::string_view field);

}  // namespace tachy::cli
