#include "web_api/fields/inputs.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/notice.h"
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

constexpr size_t kMostFilenameBytes = 200, kMostReferences = 4;
constexpr int64_t kMostLookedAt = 300;  // frames that are decoded before a job takes a video

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

// Returns the one member of an object that stands for a file.
const char* url_key(ApiField::Kind kind) {
  if (kind == ApiField::Kind::video) return "video_url";
  return kind == ApiField::Kind::sound ? "audio_url" : "image_url";
}

File from_object(const Value& value, const json& object, ApiField::Kind kind, const Offers& offers) {
  const char* const key = url_key(kind);
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

void read_input(std::shared_ptr<const Footage>& member, const fs::path& path) {
  Footage footage = read_footage(path, {.frames = kMostVideoFrames, .pixels = kMostPicturePixels});
  member = std::make_shared<const Footage>(std::move(footage));
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

template <class Member>
auto member_of(const ApiField& field) {
  return std::get<Member>(find_field(request_inputs(), field.member)->member);
}

// Checks what only videos have, and gives the video the name that messages call it by.
void settle_video(const ApiField& field, const std::string& name, VideoRequest& request) {
  const auto member = member_of<std::shared_ptr<const Footage> VideoRequest::*>(field);
  Footage footage = *(request.*member);
  footage.name = name.empty() ? "the file" : name;
  look_at_frames(footage, kMostLookedAt, field.member == "mask_video");
  request.*member = std::make_shared<const Footage>(std::move(footage));
}

// Takes a file, which is then known as `key`.
void take_file(const ApiField& field, const Value& value, const std::string& key, const Fields& fields,
               const Offers& offers, JobRequest& out) {
  const File file = file_of(value, field.kind, fields, offers);
  const bool video = field.kind == ApiField::Kind::video;
  if (!video && field.kind != ApiField::Kind::sound && file->bytes > kMostPictureBytes)
    refuse_input(value,
                 fmt::format("a picture's file has at most {} bytes, got {}", kMostPictureBytes, file->bytes),
                 "too_large");
  VideoRequest& request = out.job.settings.request;
  const std::string name = shown_filename(file->filename());
  try {
    const LineScope unsaid([](std::string_view) {});  // the run says it again
    std::visit([&](auto member) { read_input(request.*member, file->path()); },
               find_field(request_inputs(), field.member)->member);
    if (video) settle_video(field, name, request);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::io || e.code() == ErrorCode::not_found || e.code() == ErrorCode::internal)
      throw;
    std::string why = without_path(e.message(), file->path());
    const std::string own = fmt::format("`{}`: ", field.member);
    refuse_input(value, why.starts_with(own) ? why.substr(own.size()) : why);
  }
  out.job.settings.inputs[field.member] = {file->path().string(), file->sha256};
  out.given[key] = {{"file", name}, {"sha256", file->sha256}};
  if (std::find(out.files.begin(), out.files.end(), file) == out.files.end()) out.files.push_back(file);
}

// Takes what a video is in place of the video, for a plan. Returns false if it is given otherwise.
bool take_facts(const ApiField& field, const Value& value, const Fields& fields, JobRequest& out) {
  if (field.kind != ApiField::Kind::video || !fields.plans) return false;
  const json facts = unwrapped(value).value;
  if (!facts.is_object() || !facts.contains("frames")) return false;
  const auto number = [&](const char* name, const Range& range) {
    if (!facts.contains(name)) refuse_input(value, fmt::format("`{}` is missing", name));
    return number_in({value.param, facts.at(name)}, range);
  };
  const auto whole = [&](const char* name, double most) {
    number(name, {1, most});
    return whole_number_in({value.param, facts.at(name)}, {1, most});
  };
  constexpr double kMostVideoSide = 16384, kMostRate = 1000;
  Footage footage{.width = static_cast<int>(whole("width", kMostVideoSide)),
                  .height = static_cast<int>(whole("height", kMostVideoSide)),
                  .fps = number("fps", {0, kMostRate}),
                  .frames = whole("frames", kMostVideoFrames),
                  .name = "the video"};
  const auto member = member_of<std::shared_ptr<const Footage> VideoRequest::*>(field);
  out.job.settings.request.*member = std::make_shared<const Footage>(std::move(footage));
  Sha256 hash;
  hash.add(json_line(facts));
  out.job.settings.inputs[field.member] = {"", hash.hex()};
  return true;
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
  if (!take_facts(field, value, fields, out)) take_file(field, value, value.param, fields, offers, out);
}

void take_inputs(const ApiField& field, const Value& value, const GivenFields& given, const Fields& fields,
                 const Offers& offers, JobRequest& out) {
  const Value list = unwrapped(value);
  if (value.from_file || !list.value.is_array())
    return take_file(field, value, value.param, fields, offers, out);
  const size_t count = list.value.size();
  if (count < 1 || count > kMostReferences)
    refuse_input(value, fmt::format("expected 1 to {} pictures, got {}", kMostReferences, count));
  for (size_t i = 0; i < count; ++i) {
    const std::string member = i == 0 ? field.member : fmt::format("{}_{}", field.member, i + 1);
    if (const Value* const other = i == 0 ? nullptr : given.find(member))
      refuse_input(value, fmt::format("picture {} of the list is given as `{}`, too", i + 1, other->param));
    const json& one = list.value[i];
    const Value file{value.param, one, list.typed, !list.typed && is_sent_file(one)};
    take_file(*field_of_member(member), file, i == 0 ? value.param : member, fields, offers, out);
  }
}

}  // namespace tachy::web_api
