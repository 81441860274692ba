#include "web_api/fields/lora_notes.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "api/tachyscope.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/text_file.h"
#include "base/whole_characters.h"
#include "web_api/fields/lora_picture.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kMostSideBytes = 256 << 10;
constexpr size_t kMostNoteBytes = 4000, kMostWordBytes = 200, kMostWords = 32, kMostTags = 8;
constexpr size_t kMostKnown = 10'000;

std::string trimmed(std::string_view text, size_t most = kMostNoteBytes) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return "";
  text = text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
  return std::string(whole_characters(text, most));
}

void add_words(std::vector<std::string>& words, std::string_view text) {
  while (!text.empty() && words.size() < kMostWords) {
    const size_t end = std::min(text.find_first_of(",\n"), text.size());
    const std::string word = trimmed(text.substr(0, end), kMostWordBytes);
    if (!word.empty() && std::ranges::find(words, word) == words.end()) words.push_back(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::string text_under(const json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const auto it = object.find(key); it != object.end() && it->is_string())
      if (std::string text = trimmed(it->get<std::string>()); !text.empty()) return text;
  return "";
}

// Returns a text beside the LoRA, or "" where there is none that can be read.
std::string side_text(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";
  try {
    return read_text_file(path, kMostSideBytes);
  } catch (const Error&) {
    return "";
  }
}

// Fills in what is still missing from a file of other programs, whose keys differ.
void take_side_json(LoraNotes& out, const std::string& text) {
  const json side = text.empty() ? json() : parsed_or_discarded(text);
  if (!side.is_object()) return;
  out.title = text_under(side, {"title", "name"});
  out.notes = text_under(side, {"notes", "description", "about"});
  out.base = text_under(side, {"base_model", "baseModel", "sd version"});
  for (const char* key : {"trigger_words", "trainedWords", "words", "activation text"}) {
    const auto it = side.find(key);
    if (it == side.end()) continue;
    if (it->is_string()) add_words(out.words, it->get_ref<const std::string&>());
    if (it->is_array())
      for (const json& word : *it)
        if (word.is_string()) add_words(out.words, word.get_ref<const std::string&>());
  }
  for (const char* key : {"strength", "preferred weight"})
    if (const auto it = side.find(key); it != side.end() && it->is_number() && !out.strength)
      if (const double strength = *it; strength != 0 && strength >= -100 && strength <= 100)
        out.strength = strength;
}

// Trainers note how often each tag of their captions occurs: {"folder": {"tag": 12}}.
void add_frequent_tags(std::vector<std::string>& words, const std::string& text) {
  const json folders = parsed_or_discarded(text);
  if (!folders.is_object()) return;
  std::map<std::string, int64_t> counts;
  for (const json& folder : folders)
    if (folder.is_object())
      for (const auto& [tag, count] : folder.items())
        if (count.is_number_unsigned() && count < int64_t{1} << 32) counts[tag] += count.get<int64_t>();
  std::vector<std::pair<std::string, int64_t>> tags(counts.begin(), counts.end());
  std::ranges::stable_sort(tags, std::greater<>(), &std::pair<std::string, int64_t>::second);
  if (tags.size() > kMostTags) tags.resize(kMostTags);
  for (const auto& tag : tags) add_words(words, tag.first);
}

void take_metadata(LoraNotes& out, const fs::path& path) {
  if (path.extension() != ".safetensors" && path.extension() != ".sft") return;
  std::map<std::string, std::string> about;
  try {
    about = read_metadata(path);
  } catch (const Error&) {
    return;  // whoever uses it is told why
  }
  const auto fill = [&](std::string& member, std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      if (const auto it = about.find(key); it != about.end() && member.empty()) member = trimmed(it->second);
  };
  fill(out.title, {"modelspec.title", "ss_output_name"});
  fill(out.notes, {"modelspec.description", "modelspec.usage_hint", "ss_training_comment"});
  fill(out.base, {"modelspec.architecture", "ss_base_model_version", "base_model"});
  out.has_cover = !cover_in(about).empty();
  if (!out.words.empty()) return;
  for (const char* key : {"modelspec.trigger_phrase", "trigger_words", "instance_prompt"})
    if (const auto it = about.find(key); it != about.end() && out.words.empty())
      add_words(out.words, it->second);
  if (const auto it = about.find("ss_tag_frequency"); it != about.end() && out.words.empty())
    add_frequent_tags(out.words, it->second);
}

// Tells the versions of the three files apart by their sizes and times.
std::string version_of(const std::vector<fs::path>& files) {
  std::string out;
  for (const fs::path& file : files) {
    std::error_code size_error, time_error;
    const uint64_t size = fs::file_size(file, size_error);
    const auto time = fs::last_write_time(file, time_error);
    out += size_error || time_error ? "none " : fmt::format("{} {} ", size, time.time_since_epoch().count());
  }
  return out;
}

LoraNotes read_notes(const OfferedLora& lora, const fs::path& side_json, const fs::path& side_words) {
  LoraNotes out;
  take_side_json(out, side_text(side_json));
  if (out.words.empty()) add_words(out.words, side_text(side_words));
  take_metadata(out, lora.path);
  return out;
}

}  // namespace

LoraNotes notes_of(const OfferedLora& lora) {
  struct Known {
    std::string version;
    LoraNotes notes;
  };
  static std::mutex mutex;
  static std::map<std::string, Known> known;  // by path
  const fs::path side_json = fs::path(lora.path).replace_extension(".json"),
                 side_words = fs::path(lora.path).replace_extension(".txt");
  const std::string version = version_of({lora.path, side_json, side_words});
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(lora.path.string()); it != known.end() && it->second.version == version)
      return it->second.notes;
  }
  LoraNotes notes = read_notes(lora, side_json, side_words);
  const std::lock_guard lock(mutex);
  if (known.size() >= kMostKnown) known.clear();
  known[lora.path.string()] = {version, notes};
  return notes;
}

}  // namespace tachy::web_api
