#include "jobs/settings_encoding.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "media/video/video_writer.h"

namespace tachy::jobs {

using nlohmann::json;

Encoding encoding_of(const std::filesystem::path& output, int crf, const std::string& speed,
                     const Encoding& earlier) {
  const VideoFormat format = video_format(output);
  Encoding out{.format = format == VideoFormat::mp4    ? "mp4"
                         : format == VideoFormat::webm ? "webm"
                                                       : "",
               .crf = crf,
               .speed = speed};
  if (out.format.empty() || out.format != earlier.format) return out;
  if (out.crf == -1) out.crf = earlier.crf;
  if (out.speed.empty()) out.speed = earlier.speed;
  return out;
}

void add_encoding(json& settings, const Encoding& e) {
  if (e.format.empty() || (e.crf == -1 && e.speed.empty())) return;
  json& to = settings["encoding"] = {{"format", e.format}};
  if (e.crf != -1) to["crf"] = e.crf;
  if (!e.speed.empty()) to["speed"] = e.speed;
}

Encoding encoding_in(const json& settings) {
  const auto it = settings.find("encoding");
  if (it == settings.end()) return {};
  const auto has = [&](const char* key, auto is) { return !it->contains(key) || ((*it)[key].*is)(); };
  check(it->is_object() && has("format", &json::is_string) && has("speed", &json::is_string) &&
            has("crf", &json::is_number_unsigned) && it->value("crf", uint64_t{0}) <= 63,
        ErrorCode::corrupt, "'encoding' should hold a format, a crf of 0 to 63 and a speed, got {}",
        it->dump(-1, ' ', true, json::error_handler_t::replace));
  return {it->value("format", ""), it->value("crf", -1), it->value("speed", "")};
}

}  // namespace tachy::jobs
