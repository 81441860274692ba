// The fields of a VideoRequest in one table, from which front ends make what they show and read: the command
// line its options, a run's settings their JSON, a server its requests. A new member of VideoRequest gets an
// entry here and an option name in apps/cli/field_options.cpp; checks, settings, --from and --help follow.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/field.h"
#include "request/request.h"

namespace tachy {

// A setting: a text, a number or a list of texts. If it is optional in VideoRequest, the model fills it in
// when it is not given (catalog/model_defaults.cpp), or src/resolve does; the default of any other is the
// value in a new VideoRequest.
struct RequestField {
  using Member =
      std::variant<std::string VideoRequest::*, int VideoRequest::*, uint64_t VideoRequest::*,
                   std::optional<std::string> VideoRequest::*, std::optional<int> VideoRequest::*,
                   std::optional<double> VideoRequest::*, std::vector<std::string> VideoRequest::*>;

  const char* name;  // the member's name, also in messages
  const char* key;   // its key in settings as JSON: diffusers' name, if it has one
  Member member;
  const char* help;  // for people, in one line; names other fields as messages do
  Allowed allowed = {};
  // Says whether a request depends on the field, if that is not always so. Settings leave it out otherwise.
  bool (*matters)(const VideoRequest&) = nullptr;
};

// A field that is not a setting but data, which a front end reads from a file or a body. Settings hold the
// file's name under the input's name, and the file's hash.
struct RequestInput {
  using Member =
      std::variant<std::vector<float> VideoRequest::*, std::shared_ptr<const Picture> VideoRequest::*,
                   std::shared_ptr<const Footage> VideoRequest::*,
                   std::shared_ptr<const ImageEmbeds> VideoRequest::*,
                   std::shared_ptr<const Speech> VideoRequest::*>;

  const char* name;
  Member member;
  const char* help;
};

const std::vector<RequestField>& request_fields();
std::vector<RequestField> adapter_fields();  // for adapters (adapter_fields.cpp)
std::vector<RequestField> talk_fields();     // for talking photos (talk_fields.cpp)
std::vector<RequestField> footage_fields();  // for videos that are given (footage_fields.cpp)
const std::vector<RequestInput>& request_inputs();
const Choices& vae_math_choices();

// Throws invalid_argument for the first value that is not in its field's range or choices. resolve() checks
// what depends on several fields, on the model or on the machine.
void check_fields(const VideoRequest& request);

// Gives each optional field that has no value the one in `defaults`.
void fill_fields(VideoRequest& request, const VideoRequest& defaults);

}  // namespace tachy
