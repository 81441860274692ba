// A server's offers for the tests of requests: the model that ships and a world, two LoRA files, a spool; and
// requests made of parts or of JSON.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "web_api/job_request.h"

namespace tachy::web_api {

// Sends parts of a multipart body.
inline http::Request form(const std::vector<std::pair<std::string, std::string>>& parts) {
  http::Request out{.method = "POST", .body_kind = http::Request::Body::multipart};
  for (const auto& [name, text] : parts) out.parts.push_back({name, text, nullptr});
  return out;
}

inline http::Request json_text_request(std::string text) {
  return {.method = "POST",
          .headers = {{"content-type", "application/json; charset=utf-8"}},
          .body_kind = http::Request::Body::text,
          .body = std::move(text)};
}
inline http::Request json_request(const nlohmann::json& body) { return json_text_request(body.dump()); }

// The answer to a request that is refused.
struct Answer {
  int status = 0;
  std::string code, param, message;
  nlohmann::json nearest;
};

template <class F>
Answer refused(F&& body) {
  try {
    body();
  } catch (const ApiError& e) {
    return {e.status(), e.code, e.param, e.message, e.nearest};
  }
  return {};
}

class FieldCase : public testing::Test {
 protected:
  FieldCase() {
    std::filesystem::create_directories(folder_ / "spool");
    std::filesystem::create_directories(folder_ / "loras" / "inside");
    for (const char* name :
         {"anime.safetensors", "film.safetensors", "both.safetensors", "both.gguf", "notes.txt"})
      std::ofstream(folder_ / "loras" / name) << name;
    std::ofstream(folder_ / "loras" / "inside" / "hidden.safetensors") << "hidden";
    std::ofstream(folder_ / "secret.safetensors") << "secret";
  }
  ~FieldCase() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  JobRequest parse(const http::Request& request, const nlohmann::json* base = nullptr) {
    return parse_job(fields_of(request), caller_, offers_, base);
  }
  Answer refusal(const http::Request& request, const nlohmann::json* base = nullptr) {
    return refused([&] { parse(request, base); });
  }
  // Sends one field beside a prompt, as JSON and as a part.
  Answer refusal_of(const std::string& name, const nlohmann::json& value) {
    return refusal(json_request({{"prompt", "a cat"}, {name, value}}));
  }
  Answer refusal_of_text(const std::string& name, const std::string& text) {
    return refusal(form({{"prompt", "a cat"}, {name, text}}));
  }
  // Puts a file into the spool, as the HTTP server does.
  std::shared_ptr<http::SpooledFile> spooled(const std::string& bytes,
                                             const std::string& filename = "f.bin") {
    const auto path = folder_ / "spool" / ("file-" + std::to_string(++files_));
    std::ofstream(path, std::ios::binary) << bytes;
    auto file = std::make_shared<http::SpooledFile>(path, filename, "application/octet-stream");
    file->bytes = bytes.size();
    Sha256 hash;
    hash.add(bytes);
    file->sha256 = hash.hex();
    return file;
  }
  size_t files_in_spool() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_ / "spool"),
                                             std::filesystem::directory_iterator()));
  }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      ("fields-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  workers::Models models_{{{"wan", std::string(TACHY_SOURCE_DIR) + "/models/sprites"},
                           {"other", std::string(TACHY_SOURCE_DIR) + "/models/talker"},
                           {"maze", std::string(TACHY_SOURCE_DIR) + "/models/world", true}},
                          {.threads = 1}};
  std::vector<queue::Preset> presets_;
  Offers offers_{.models = models_,
                 .loras = folder_ / "loras",
                 .url_hosts = {},
                 .spool = folder_ / "spool",
                 .presets = [this](const std::string& owner) {
                   std::vector<queue::Preset> own;
                   for (const queue::Preset& preset : presets_)
                     if (preset.owner == owner) own.push_back(preset);
                   return own;
                 }};
  http::Caller caller_{.key = "ann"};
  int files_ = 0;
};

}  // namespace tachy::web_api
