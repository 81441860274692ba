// The fields of a multipart body as one JSON object. Its values are texts and files, so a client writes
// lists and objects into the names of the parts:
//
//   size                        a text or a file
//   input_reference[image_url]  a member of an object
//   without[]                   an entry of a list, once for each
//   loras[][name]               a list of objects, by columns: all names, then all strengths …; as many of each
//   loras[0][name]              the same with numbers
//
// Texts stay texts, and a file is {"file": its place among the files}.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "http/message.h"

namespace tachy::web_api {

// Throws ApiError (invalid_value) for a name that is malformed or deep, comes twice, or contradicts another one.
nlohmann::json form_fields(const std::vector<http::Part>& parts,
                           std::vector<std::shared_ptr<http::SpooledFile>>& files);

}  // namespace tachy::web_api
