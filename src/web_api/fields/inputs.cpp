#include "web_api/fields/inputs.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/random_bytes.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "base/whole_characters.h"
#include "media/files.h"
#include "media/picture/image_reader.h"
#include "media/sound/sound_reader.h"
#include "web_api/fetch_url.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using File = std::shared_ptr<http::SpooledFile>;

constexpr size_t kMostFilenameBytes = 200;

[[noreturn]] void refuse_input(const Value& value, const std::string& why,
                               const char* code = "invalid_value") {
  throw ApiError(code, fmt::format("`{}`: {}", value.param, why), value.param);
}

bool begins(std::string_view text, std::string_view small) {
  if (text.size() < small.size()) return false;
  for (size_t i = 0; i < small.size(); ++i) {
    const char c = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] | 0x20) : text[i];
    if (c != small[i]) return false;
  }
  return true;
}

// data:[type][;base64],…
File decoded(const Value& value, std::string_view url, const Offers& offers) {
  const size_t comma = url.find(',');
  std::string_view head = url.substr(0, comma);
  if (comma == url.npos || !head.ends_with(";base64"))
    refuse_input(value, "expected a data URL in base64, as in data:image/png;base64,iVBORw0…");
  const std::optional<std::string> bytes = from_base64(url.substr(comma + 1));
  if (!bytes) refuse_input(value, "the data URL is not base64");
  if (bytes->size() > offers.upload_bytes)
    refuse_input(
        value,
        fmt::format("the file has {} bytes, and at most {} are accepted", bytes->size(), offers.upload_bytes),
        "too_large");
  head.remove_prefix(std::string_view("data:").size());
  const std::string type(head.substr(0, head.find(';')));
  auto file =
      std::make_shared<http::SpooledFile>(offers.spool / ("input-" + random_hex(32)), "", shown(type));
  std::ofstream out(file->path(), std::ios::binary);
  out.write(bytes->data(), static_cast<std::streamsize>(bytes->size()));
  out.close();
  check(out.good(), ErrorCode::io, "{}: cannot be written", file->path().string());
  Sha256 hash;
  hash.add(*bytes);
  file->bytes = bytes->size(), file->sha256 = hash.hex();
  return file;
}

File from_text(const Value& value, const std::string& text, const Offers& offers) {
  if (begins(text, "data:")) return decoded(value, text, offers);
  if (!begins(text, "http://") && !begins(text, "https://"))
    refuse_input(value, fmt::format("expected a file or a data URL, got '{}'", shown(text)));
  if (offers.url_hosts.empty())
    refuse_input(value, "this server fetches nothing from addresses; send the file or a data URL");
  try {
    return fetch_url(text, offers);
  } catch (ApiError& e) {
    if (e.param.empty()) e.param = value.param;
    throw;
  }
}

File from_object(const Value& value, const json& object, ApiField::Kind kind, const Offers& offers) {
  const char* const key = kind == ApiField::Kind::sound ? "audio_url" : "image_url";
  for (const auto& [name, member] : object.items())
    if (name != key)
      refuse_input(value, fmt::format("expected {{\"{}\": data URL}}, got '{}'", key, shown(name)));
  if (!object.contains(key))
    refuse_input(value, fmt::format("expected {{\"{}\": data URL}}, got an empty object", key));
  const json& url = object[key];
  if (!url.is_string()) refuse_input(value, fmt::format("`{}` should be a text", key));
  return from_text(value, url.get_ref<const std::string&>(), offers);
}

File file_of(const Value& value, ApiField::Kind kind, const Fields& fields, const Offers& offers) {
  if (value.from_file) {
    const size_t index = value.value["file"].get<size_t>();
    if (index >= fields.files.size()) refuse_input(value, "expected a file or a data URL");
    return fields.files[index];
  }
  const Value inner = unwrapped(value);
  if (inner.value.is_object()) return from_object(value, inner.value, kind, offers);
  if (!inner.value.is_string()) refuse(value, "a file or a data URL");
  return from_text(value, inner.value.get_ref<const std::string&>(), offers);
}

void read_input(std::shared_ptr<const Picture>& member, const fs::path& path) {
  const std::vector<uint8_t> bytes = read_file_bytes(path, kMostPictureBytes);
  RgbFrame frame = decode_image(bytes, "the file", kMostPicturePixels);
  member = std::make_shared<const Picture>(Picture{frame.width, frame.height, std::move(frame.rgb)});
}

void read_input(std::shared_ptr<const Speech>& member, const fs::path& path) {
  const SoundLimits limits{.max_seconds = kMostSoundSeconds, .max_samples = kMostSoundSamples};
  member = std::make_shared<const Speech>(Speech{read_speech(path, limits)});
}

template <class Other>
void read_input(Other&, const fs::path&) {
  fail(ErrorCode::internal, "no field of the interface is an input of this kind");
}

// Returns the message without the place of the file, which is this machine's own.
std::string without_path(std::string message, const fs::path& path) {
  const std::string place = path.string();
  for (size_t at = message.find(place); !place.empty() && at != message.npos; at = message.find(place, at))
    message.replace(at, place.size(), "the file");
  return message;
}

}  // namespace

std::string shown_filename(const std::string& filename) {
  const size_t slash = filename.find_last_of("/\\");
  std::string name = filename.substr(slash == filename.npos ? 0 : slash + 1);
  if (find_invalid_utf8(name) != kValidUtf8) name.clear();
  for (char& c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '_';
  return std::string(whole_characters(name, kMostFilenameBytes));
}

void take_input(const ApiField& field, const Value& value, const Fields& fields, const Offers& offers,
                JobRequest& out) {
  const File file = file_of(value, field.kind, fields, offers);
  if (field.kind == ApiField::Kind::picture && file->bytes > kMostPictureBytes)
    refuse_input(value,
                 fmt::format("a picture's file has at most {} bytes, got {}", kMostPictureBytes, file->bytes),
                 "too_large");
  VideoRequest& request = out.job.settings.request;
  try {
    std::visit([&](auto member) { read_input(request.*member, file->path()); },
               find_field(request_inputs(), field.member)->member);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::io || e.code() == ErrorCode::not_found || e.code() == ErrorCode::internal)
      throw;
    refuse_input(value, without_path(e.message(), file->path()));
  }
  out.job.settings.inputs[field.member] = {file->path().string(), file->sha256};
  out.given[value.param] = {{"file", shown_filename(file->filename())}, {"sha256", file->sha256}};
  if (std::find(out.files.begin(), out.files.end(), file) == out.files.end()) out.files.push_back(file);
}

}  // namespace tachy::web_api
