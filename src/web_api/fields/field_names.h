// The fields that a job is made of, and how callers may spell them. Most are the settings of generate and talk, made
// from the one table of fields (request/request_fields.h): each can be given by its key ("num_frames") and by its
// member's name ("frames"). The others are spellings that servers of this field share.
//
// Nothing that names a file or a device of this machine is among them: outputs, the engine's options, latents.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"

namespace tachy::web_api {

struct ApiField {
  enum class Kind {
    setting,  // an entry of request_fields()
    seed,
    loras,
    preset,
    picture,
    pictures,  // a list of them: the field itself, and those that are numbered from 2 on
    sound,
    video,
    model,
    seconds,
    size,
    priority,
    crf,
    encode_speed,
    extra,  // an object of further fields
  };
  std::string name;                  // the spelling that the interface documents
  std::vector<std::string> aliases;  // other spellings
  std::string member;                // the name that messages of the engine have for it
  std::string help;                  // as in RequestField: fields are in backticks
  Kind kind = Kind::setting;
  const RequestField* setting = nullptr;  // for the settings, the seed, loras and the preset
};

const std::vector<ApiField>& api_fields();
// Says whether fields of this kind are files: one for each.
bool is_input(ApiField::Kind kind);
// Returns the field with this spelling, or null.
const ApiField* find_api_field(std::string_view spelt);
// Returns the field that the engine's messages name so, or null.
const ApiField* field_of_member(std::string_view member);
// Returns "; near: steps, size" for a spelling that does not exist, or "".
std::string near_fields(std::string_view spelt);

// Returns how the caller has spelt a field, or the documented spelling if the caller has not given it. `given` has the
// fields as the caller spelt them (JobRequest::given), or is null.
std::string spelling_of(const ApiField& field, const nlohmann::json& given);
// Replaces the engine's names in backticks by the caller's.
std::string with_spellings(std::string_view message, const nlohmann::json& given);

}  // namespace tachy::web_api
