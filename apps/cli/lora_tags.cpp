#include "lora_tags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/near_names.h"

namespace tachy::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "<lora:", kHighNoise = "|high_noise|";
constexpr const char* kForm = "a tag is <lora:NAME:WEIGHT> or <lora:|high_noise|NAME:WEIGHT>";
constexpr std::string_view kAdapterEndings[] = {".safetensors", ".sft",  ".gguf", ".pt",
                                                ".pth",         ".ckpt", ".bin"};
constexpr size_t kMostFiles = 100'000;

// Returns the place where a tag begins, in letters of either case, or npos.
size_t find_begin(std::string_view text, size_t from) {
  for (size_t at = text.find('<', from); at != text.npos; at = text.find('<', at + 1)) {
    const std::string_view here = text.substr(at, kBegin.size());
    if (std::ranges::equal(here, kBegin, {},
                           [](char c) { return c >= 'A' && c <= 'Z' ? char(c | 0x20) : c; }))
      return at;
  }
  return text.npos;
}

std::string shown(std::string_view text) {
  constexpr size_t kMost = 80;
  std::string out(text.substr(0, kMost));
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  return text.size() > kMost ? out + "…" : out;
}

std::optional<double> weight_in(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// Reads the tag at the beginning of `text`; LoraTag::text is as long as the tag.
LoraTag read_tag(std::string_view text) {
  const std::string_view tag = text.substr(0, std::min(text.find('>'), text.size() - 1) + 1);
  require(tag.ends_with('>'), "`prompt`: {} has no closing '>'; {}", shown(tag), kForm);
  require(tag.starts_with(kBegin), "`prompt`: {}: write 'lora' in small letters; {}", shown(tag), kForm);
  const std::string_view inside = tag.substr(kBegin.size(), tag.size() - kBegin.size() - 1);
  const size_t colon = inside.find(':');
  std::string_view name = inside.substr(0, colon);
  const bool high = name.starts_with(kHighNoise);
  if (high) name.remove_prefix(kHighNoise.size());
  require(!name.empty(), "`prompt`: {} has no name; {}", shown(tag), kForm);
  require(!name.starts_with('|'), "`prompt`: {}: only |high_noise| may stand before the name; {}", shown(tag),
          kForm);
  require(colon != inside.npos, "`prompt`: {} has no weight; {}", shown(tag), kForm);
  const std::optional<double> weight = weight_in(inside.substr(colon + 1));
  require(weight && std::abs(*weight) <= 100,
          "`prompt`: {}: expected a weight from -100 to 100, got '{}'; {}", shown(tag),
          shown(inside.substr(colon + 1)), kForm);
  return {std::string(name), *weight, high, std::string(tag)};
}

// Returns the name of a file in the folder without its ending; nothing for other files.
std::optional<std::string_view> stem_of(std::string_view file) {
  for (const std::string_view ending : kAdapterEndings)
    if (file.size() > ending.size() && file.ends_with(ending))
      return file.substr(0, file.size() - ending.size());
  return std::nullopt;
}

bool is_space(char c) { return c == ' ' || c == '\t'; }

}  // namespace

TaggedPrompt take_lora_tags(std::string_view prompt) {
  TaggedPrompt out;
  size_t done = 0;
  for (size_t at = find_begin(prompt, 0); at != prompt.npos; at = find_begin(prompt, done)) {
    out.tags.push_back(read_tag(prompt.substr(at)));
    out.prompt += prompt.substr(done, at - done);
    done = at + out.tags.back().text.size();
    // If there are spaces on both sides of a tag, only those on one side are kept.
    while ((out.prompt.empty() || is_space(out.prompt.back())) && done < prompt.size() &&
           is_space(prompt[done]))
      ++done;
  }
  out.prompt += prompt.substr(done);
  while (!out.tags.empty() && !out.prompt.empty() && is_space(out.prompt.back())) out.prompt.pop_back();
  require(out.tags.empty() || find_begin(out.prompt, 0) == prompt.npos,
          "`prompt`: {} holds a tag within a tag; {}", shown(prompt), kForm);
  return out;
}

void refuse_lora_tags(std::string_view prompt, std::string_view what) {
  const size_t at = find_begin(prompt, 0);
  if (at != prompt.npos)
    fail(ErrorCode::invalid_argument, "{}: leave out {}", what, read_tag(prompt.substr(at)).text);
}

LoraFolder::LoraFolder(const fs::path& folder) : folder_(folder) {
  std::error_code error;
  check(fs::is_directory(folder, error), ErrorCode::not_found, "--lora-dir: {}: no such folder",
        folder.string());
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code ignored;
    if (!stem_of(name) || !it->is_regular_file(ignored)) continue;
    check(files_.size() < kMostFiles, ErrorCode::unsupported, "--lora-dir: {}: more than {} files",
          folder.string(), kMostFiles);
    files_.push_back(std::move(name));
  }
  check(!error, ErrorCode::io, "--lora-dir: {}: cannot be read: {}", folder.string(), error.message());
  std::ranges::sort(files_);
}

fs::path LoraFolder::file_of(const LoraTag& tag) const {
  if (std::ranges::binary_search(files_, tag.name)) return folder_ / tag.name;
  std::vector<std::string> stems, found;
  for (const std::string& file : files_) {
    stems.emplace_back(*stem_of(file));
    if (stems.back() == tag.name) found.push_back(file);
  }
  require(found.size() < 2, "--lora-dir: {}: {} can mean {}; write the ending as well", folder_.string(),
          shown(tag.text), fmt::join(found, " and "));
  if (found.size() == 1) return folder_ / found.front();
  stems.erase(std::unique(stems.begin(), stems.end()), stems.end());
  const std::string near =
      stems.empty() ? fmt::format("it holds no file that ends in {}", fmt::join(kAdapterEndings, ", "))
                    : fmt::format("near: {}", fmt::join(near_names(tag.name, stems), ", "));
  const bool path = tag.name.find_first_of("/\\") != std::string::npos;
  fail(ErrorCode::not_found, "--lora-dir: {} has no LoRA with the name in {}{}; {}", folder_.string(),
       shown(tag.text),
       path ? " (a name is that of a file in this folder; it cannot name a folder inside it)" : "", near);
}

std::vector<std::string> LoraFolder::find(const std::vector<LoraTag>& tags, bool two_experts) const {
  struct Sum {
    std::string file;
    bool high_noise;
    double weight;
  };
  std::vector<Sum> sums;
  for (const LoraTag& tag : tags) {
    const std::string file = file_of(tag).string();
    const auto same = std::ranges::find_if(
        sums, [&](const Sum& s) { return s.file == file && s.high_noise == tag.high_noise; });
    if (same == sums.end())
      sums.push_back({file, tag.high_noise, tag.weight});
    else
      same->weight += tag.weight;
  }
  std::vector<std::string> out;
  for (const Sum& s : sums)
    out.push_back(fmt::format("{}:{}{}", s.file, s.weight,
                              s.high_noise  ? "@high"
                              : two_experts ? "@low"
                                            : ""));
  return out;
}

}  // namespace tachy::cli
