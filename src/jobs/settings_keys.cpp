#include "jobs/settings_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "api/fields.h"
#include "base/near_names.h"
#include "jobs/settings.h"

namespace tachy::jobs {
namespace {

using nlohmann::json;

std::vector<std::string> known_keys() {
  // Besides fields and files: what the program notes in a video, beside it and in a server's job.
  std::vector<std::string> out = {"tachyscope", "model",     "device",     "parallel", "environment",
                                  "encoding",   kFramesKept, kFingerprint, "output",   "job"};
  for (const RequestField& field : request_fields()) out.emplace_back(field.key);
  for (const ModelPart& part : model_parts()) out.emplace_back(part.name);
  for (const RequestInput& input : request_inputs())
    for (const char* ending : {"", "_sha256"}) out.push_back(input.name + std::string(ending));
  return out;
}

// A field may be known by the name that its option has ("steps"), which is not its key.
std::string near_keys(const std::string& name, std::vector<std::string> known) {
  for (const RequestField& field : request_fields())
    if (std::string_view(field.name) != field.key) known.emplace_back(field.name);
  std::string out;
  for (const std::string& near : near_names(name, known, 3)) {
    const RequestField* const field = find_field(request_fields(), near);
    out += (out.empty() ? "" : ", ") + (field ? std::string(field->key) : near);
  }
  return out;
}

}  // namespace

void expect_settings(const json& j, const std::string& from) {
  constexpr const char* kNone = "does not hold the settings of a run";
  require(j.is_object(), "{} {}: expected names and values in braces", from, kNone);
  require(!j.contains("world"),
          "{} holds the settings of a world, which no run repeats; `tachyscope world` makes it anew", from);
  require(j.contains("tachyscope"), "{} {}: it has no 'tachyscope', which names the version", from, kNone);
  require(j.contains("prompt"), "{} {}: it has no 'prompt'", from, kNone);
}

void expect_known_keys(const json& settings, const std::string& from) {
  const std::vector<std::string> known = known_keys();
  for (const auto& item : settings.items()) {
    if (std::ranges::find(known, item.key()) != known.end()) continue;
    std::string made;
    if (const json& by = settings.at("tachyscope"); by.is_string() && by != version())
      made = fmt::format(" (the file is of version {}, this is {})", by.get<std::string>(), version());
    fail(ErrorCode::corrupt, "{}: there is no setting '{}'{}; near: {}", from, item.key(), made,
         near_keys(item.key(), known));
  }
}

}  // namespace tachy::jobs
