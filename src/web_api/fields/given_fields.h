// The fields of a request by what they are for, whatever their spellings: `extra_params` taken apart, a saved preset's
// fields under those of the request, and all of them over those of an earlier job.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "web_api/fields/field_names.h"
#include "web_api/fields/values.h"
#include "web_api/job_request.h"

namespace tachy::web_api {

struct GivenFields {
  std::map<std::string, Value> values;  // by ApiField::member
  std::set<std::string> dropped;        // given as null: the earlier job's value does not count either

  const Value* find(const std::string& member) const;
};

// Says whether a value of a multipart body is a file: its place among Fields::files.
bool is_sent_file(const nlohmann::json& value);

// Throws ApiError for a field that is unknown, given twice, or given beside one that says the same in another way
// (`seconds` and `num_frames`).
GivenFields given_fields(const Fields& fields);

// Puts the fields of the saved preset that the request names in the place of its name. A preset of the table
// (request/presets.h) stays. Throws ApiError for a name that is neither.
void lay_over_preset(GivenFields& given, const std::string& owner, const Offers& offers);

// Lays the request's fields over those of an earlier job, as JobRequest::given has them. A new length or size replaces
// the earlier one in whichever form it was given. Files of the earlier job are left out.
GivenFields laid_over(const nlohmann::json& base, GivenFields given);

}  // namespace tachy::web_api
