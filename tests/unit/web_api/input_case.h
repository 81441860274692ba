// Requests with one file, for the tests of inputs.
#pragma once

#include "base/base64.h"
#include "field_case.h"

namespace tachy::web_api {

inline std::string golden(const std::string& name) {
  std::ifstream in(std::string(TACHY_SOURCE_DIR) + "/tests/golden/media/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::string data_url(const std::string& bytes, const std::string& type = "image/png") {
  return "data:" + type + ";base64," + to_base64(bytes);
}

class InputFields : public FieldCase {
 protected:
  http::Request with_file(const std::string& name, const std::string& bytes,
                          const std::string& filename = "f.bin") {
    http::Request out = form({{"prompt", "a cat"}, {name, ""}});
    out.parts[1].file = spooled(bytes, filename);
    return out;
  }
  Answer refusal_of_file(const std::string& name, const std::string& bytes) {
    return refusal(with_file(name, bytes));
  }
};

}  // namespace tachy::web_api
