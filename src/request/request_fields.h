// The fields of a VideoRequest as one table, of which front ends make what they show and read: the command
// line its options, a run's settings their JSON, a server its requests. A new member of VideoRequest gets an
// entry here and a spelling in apps/cli/field_options.cpp; checks, settings, --from and --help follow.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/field.h"
#include "request/request.h"

namespace tachy {

// A setting: text, a number or a list of texts. One that is optional in VideoRequest is the model's to fill in where it is not
// given (request.cpp); the default of another is what a new VideoRequest holds.
struct RequestField {
  using Member =
      std::variant<std::string VideoRequest::*, int VideoRequest::*, uint64_t VideoRequest::*,
                   std::optional<std::string> VideoRequest::*, std::optional<int> VideoRequest::*,
                   std::optional<double> VideoRequest::*, std::vector<std::string> VideoRequest::*>;

  const char* name;  // of the member, and in messages
  const char* key;   // in settings as JSON: diffusers' name, where it has one
  Member member;
  const char* help;  // for people, in one line; names other fields as messages do
  Allowed allowed = {};
  // Whether a request depends on it, where that is not always so. Settings leave it out otherwise.
  bool (*matters)(const VideoRequest&) = nullptr;
};

// What is no setting but data, which a front end reads from a file or a body. Settings hold the file's name
// under the input's, and its hash.
struct RequestInput {
  using Member =
      std::variant<std::vector<float> VideoRequest::*, std::shared_ptr<const Picture> VideoRequest::*,
                   std::shared_ptr<const ImageEmbeds> VideoRequest::*,
                   std::shared_ptr<const Speech> VideoRequest::*>;

  const char* name;
  Member member;
  const char* help;
};

const std::vector<RequestField>& request_fields();
std::vector<RequestField> adapter_fields();  // of adapters (adapter_fields.cpp)
std::vector<RequestField> talk_fields();     // those of them that are of talking photos (talk_fields.cpp)
const std::vector<RequestInput>& request_inputs();
const Choices& vae_math_choices();

// Throws invalid_argument for the first value that its field's range or choices do not hold. What depends on
// several fields, on the model or on the machine is resolve()'s to check.
void check_fields(const VideoRequest& request);

// Gives each optional field that has no value the one of `defaults`.
void fill_fields(VideoRequest& request, const VideoRequest& defaults);

}  // namespace tachy
