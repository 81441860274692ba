#include "web_api/fields/field_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/near_names.h"

namespace tachy::web_api {
namespace {

using Kind = ApiField::Kind;

struct Alias {
  const char* name;
  const char* alias;
};
// Spellings beside the keys and the members' names.
constexpr Alias kAliases[] = {{"loras", "lora"}};

Kind kind_of_member(std::string_view member) {
  if (member == "seed") return Kind::seed;
  if (member == "loras") return Kind::loras;
  if (member == "preset") return Kind::preset;
  return Kind::setting;
}

// Returns the help where the table's own one speaks of files or of the command line, otherwise null.
const char* own_help(std::string_view member) {
  if (member == "seed")
    return "seed of the noise, as in PyTorch; if it is left out, or is -1, one is drawn and kept with the "
           "job";
  if (member == "loras")
    return "adapters (LoRA or a relative of it) by the names that /v1/loras lists, each with a strength "
           "(-100 to "
           "100) and, in a model with two experts, the one that it is for";
  if (member == "preset")
    return "settings for a distilled model (steps, sampler, shift and guidance, where you do not give them "
           "yourself), or the name of a saved preset, whose fields count where you give none";
  return nullptr;
}

std::vector<ApiField> setting_fields() {
  std::vector<ApiField> out;
  for (const RequestField& field : request_fields()) {
    const char* const help = own_help(field.name);
    ApiField own{.name = field.key,
                 .aliases = {},
                 .member = field.name,
                 .help = help ? help : field.help,
                 .kind = kind_of_member(field.name),
                 .setting = &field};
    if (own.name != own.member) own.aliases.push_back(own.member);
    for (const Alias& alias : kAliases)
      if (own.name == alias.name) own.aliases.emplace_back(alias.alias);
    out.push_back(std::move(own));
  }
  return out;
}

std::vector<ApiField> input_fields() {
  const auto help = [](const char* input) { return std::string(find_field(request_inputs(), input)->help); };
  return {
      {"input_reference", {"image", "image_reference"}, "image", help("image"), Kind::picture},
      {"last_image", {}, "last_image", help("last_image"), Kind::picture},
      {"audio_reference",
       {"audio", "speech"},
       "speech",
       "what the photo says: a sound file (wav, mp3, m4a, flac, ogg) or a video with sound, for "
       "image-to-video "
       "models with InfiniteTalk",
       Kind::sound},
      {"audio_reference_2", {"audio_2", "speech_2"}, "speech_2", help("speech_2"), Kind::sound},
      {"speaker_mask",
       {},
       "speaker_mask",
       "where the first speaker is: a picture of the photo's size that is black everywhere else",
       Kind::picture},
      {"speaker_mask_2", {}, "speaker_mask_2", help("speaker_mask_2"), Kind::picture},
      {"video",
       {},
       "video",
       "video to change (mp4, mov, mkv, webm, avi, gif): it is denoised anew from `strength` on",
       Kind::video},
      {"control_video", {}, "control_video", help("control_video"), Kind::video},
      {"mask_video", {}, "mask_video", help("mask_video"), Kind::video},
      {"reference",
       {"references"},
       "reference",
       "for VACE models: pictures of persons, things or places that the video shows; one, or a list of up to "
       "four",
       Kind::pictures},
      {"reference_2", {}, "reference_2", help("reference_2"), Kind::picture},
      {"reference_3", {}, "reference_3", help("reference_3"), Kind::picture},
      {"reference_4", {}, "reference_4", help("reference_4"), Kind::picture},
  };
}

std::vector<ApiField> other_fields() {
  return {
      {"model", {}, "model", "the name of a model that /v1/models lists (default: the first)", Kind::model},
      {"seconds",
       {},
       "seconds",
       "length of the video in place of `frames`, which becomes 4·round(seconds·`fps`/4)+1 (default: the "
       "model's)",
       Kind::seconds},
      {"size", {}, "size", "width and height in pixels, such as 832x480", Kind::size},
      {"priority",
       {},
       "priority",
       "jobs of a higher priority run first, and interrupt others; only some callers may give one (default "
       "0)",
       Kind::priority},
      {"crf", {}, "crf", "quality of the mp4: lower is better, 0 is lossless (default 16)", Kind::crf},
      {"encode_speed",
       {},
       "speed",
       "speed of encoding, by x264's names (default veryfast)",
       Kind::encode_speed},
      {"extra_params",
       {},
       "extra_params",
       "an object of further fields, which are those listed here",
       Kind::extra},
  };
}

}  // namespace

const std::vector<ApiField>& api_fields() {
  static const std::vector<ApiField> all = [] {
    std::vector<ApiField> out = setting_fields();
    for (const auto& some : {input_fields(), other_fields()}) out.insert(out.end(), some.begin(), some.end());
    return out;
  }();
  return all;
}

bool is_input(Kind kind) { return kind == Kind::picture || kind == Kind::sound || kind == Kind::video; }

const ApiField* find_api_field(std::string_view spelt) {
  for (const ApiField& field : api_fields())
    if (field.name == spelt || std::ranges::find(field.aliases, spelt) != field.aliases.end()) return &field;
  return nullptr;
}

std::string near_fields(std::string_view spelt) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const ApiField& field : api_fields()) out.push_back(field.name);
    return out;
  }();
  const std::vector<std::string> near = near_names(spelt, names, 3);
  return near.empty() ? "" : fmt::format("; near: {}", fmt::join(near, ", "));
}

const ApiField* field_of_member(std::string_view member) {
  const auto& fields = api_fields();
  const auto field = std::ranges::find(fields, member, &ApiField::member);
  return field == fields.end() ? nullptr : &*field;
}

std::string spelling_of(const ApiField& field, const nlohmann::json& given) {
  if (!given.is_object() || given.contains(field.name)) return field.name;
  for (const std::string& alias : field.aliases)
    if (given.contains(alias)) return alias;
  // One field may stand for another.
  if ((field.member == "width" || field.member == "height") && given.contains("size")) return "size";
  if (field.member == "frames" && given.contains("seconds")) return "seconds";
  return field.name;
}

std::string with_spellings(std::string_view message, const nlohmann::json& given) {
  std::string out;
  for (;;) {
    const size_t open = message.find('`'), close = open == message.npos ? open : message.find('`', open + 1);
    if (close == message.npos) return out += message;
    const std::string_view name = message.substr(open + 1, close - open - 1);
    const ApiField* const field = field_of_member(name);
    out += message.substr(0, open + 1);
    // A backtick that closes no field may open the next one.
    if (!field) {
      message.remove_prefix(open + 1);
      continue;
    }
    out += spelling_of(*field, given) + "`";
    message.remove_prefix(close + 1);
  }
}

}  // namespace tachy::web_api
