// How the command line spells the fields of a request (request/request_fields.h): the names of their
// options, and the one that its messages put for a field in backticks.
#pragma once

#include <span>
#include <string_view>

namespace tachy::cli {

struct FieldOption {
  std::string_view field;
  const char* names;            // of the option, with peers' spellings; messages say the first long one
  const char* group = nullptr;  // of `generate --help`
};

inline constexpr const char kPromptGroup[] = "Options", kPartsGroup[] = "Parts of the model",
                            kImageGroup[] = "Image to video", kSpeechGroup[] = "Talking photo",
                            kVideoGroup[] = "Video", kSamplingGroup[] = "Sampling",
                            kWindowGroup[] = "Long clips", kAdapterGroup[] = "Adapters",
                            kRunningGroup[] = "Running";

// Every request field and input, in the order of `generate --help`.
std::span<const FieldOption> request_options();

// Engine fields that name parts of a model (api/fields.h).
std::span<const FieldOption> model_part_options();

// Of --device of every command, which leaves it to the machine where nothing is said.
inline constexpr const char* kDeviceHelp =
    "where to run: auto (default, unless TACHY_DEVICE says otherwise: a GPU if there is one that this build "
    "can use), cpu, cuda, cuda:1 …";

// "--steps" for "steps"; "" for what is no field. A Spelling (base/field.h).
std::string_view option_of(std::string_view field);

}  // namespace tachy::cli
