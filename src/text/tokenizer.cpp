// Finds a model's tokenizer, and makes the padded form that text encoders read.
#include "text/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <numeric>

#include "base/error.h"
#include "base/foreign_file.h"
#include "text/limits.h"
#include "text/spiece.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxFile = 256u << 20;

std::string read_file(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  check(!error, ErrorCode::io, "{}: cannot be read: {}", path.string(), error.message());
  check(size <= kMaxFile, ErrorCode::corrupt, "{}: {} bytes are too many for a tokenizer (limit {})",
        path.string(), size, kMaxFile);
  std::ifstream in(path, std::ios::binary);
  std::string bytes(size, '\0');
  check(in && in.read(bytes.data(), static_cast<std::streamsize>(size)), ErrorCode::io, "{}: cannot be read",
        path.string());
  return bytes;
}

}  // namespace

namespace text {

void require_text(std::string_view text) {
  require(text.size() <= kMaxTextBytes, "tokenizer: expected a text of at most {} bytes, got {}",
          kMaxTextBytes, text.size());
  require_utf8(text, "tokenizer: text");
}

}  // namespace text

std::unique_ptr<Tokenizer> Tokenizer::from_json(std::string_view bytes, std::string_view name) {
  return text::read_json_tokenizer(bytes, name);
}

std::unique_ptr<Tokenizer> Tokenizer::from_spiece(std::string_view bytes, std::string_view name) {
  return text::read_spiece_tokenizer(bytes, name);
}

std::unique_ptr<Tokenizer> Tokenizer::from_vocabulary(const Vocabulary& vocabulary, std::string_view name) {
  return text::make_spiece_tokenizer(vocabulary, name);
}

std::unique_ptr<Tokenizer> Tokenizer::open(const fs::path& folder_or_file) {
  fs::path file = folder_or_file;
  std::error_code error;
  if (fs::is_directory(folder_or_file, error)) {
    file.clear();
    // The places are the folder itself, a diffusers model's subfolder, and an original Wan checkpoint's.
    for (const char* inside : {"", "tokenizer", "google/umt5-xxl"}) {
      for (const char* leaf : {"tokenizer.json", "spiece.model"}) {
        const fs::path candidate = folder_or_file / inside / leaf;
        if (file.empty() && fs::is_regular_file(candidate, error)) file = candidate;
      }
    }
    check(!file.empty(), ErrorCode::not_found,
          "{}: no tokenizer: expected tokenizer.json or spiece.model in it, in tokenizer/ or in "
          "google/umt5-xxl/",
          folder_or_file.string());
  }
  check(fs::is_regular_file(file, error), ErrorCode::not_found, "{}: {}", file.string(),
        why_missing(file, "file"));
  std::string bytes = read_file(file);
  refuse_foreign(std::string_view(bytes).substr(0, kKindBytes), file,
                 "a tokenizer (tokenizer.json or spiece.model)");
  if (bytes.starts_with("\xEF\xBB\xBF{")) bytes.erase(0, 3);  // a byte order mark that an editor added
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  const bool json = file.extension() == ".json" ||
                    (file.extension() != ".model" && first != bytes.npos && bytes[first] == '{');
  return json ? from_json(bytes, file.string()) : from_spiece(bytes, file.string());
}

int64_t TokenIds::length() const { return std::accumulate(mask.begin(), mask.end(), int64_t{0}); }

TokenIds encode_padded(const Tokenizer& tokenizer, std::string_view text, int max_length) {
  require(max_length >= 1 && max_length <= (1 << 20), "tokenizer: expected max_length 1 to {}, got {}",
          1 << 20, max_length);
  const auto length = static_cast<size_t>(max_length);
  const std::vector<int32_t> tokens = tokenizer.encode(text);
  const size_t kept = std::min(tokens.size(), length - 1);
  TokenIds out;
  out.ids.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(kept));
  out.ids.push_back(tokenizer.eos_id());
  out.mask.assign(kept + 1, 1);
  out.ids.resize(length, tokenizer.pad_id());
  out.mask.resize(length, 0);
  out.dropped = static_cast<int64_t>(tokens.size() - kept);
  return out;
}

namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, which stands for a space in pieces

// Moves a number of characters forward from a byte, or back if the number is negative.
size_t moved(std::string_view text, size_t at, int characters) {
  const auto within = [&](size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80; };
  for (; characters > 0 && at < text.size(); --characters) do
      ++at;
    while (at < text.size() && within(at));
  for (; characters < 0 && at > 0; ++characters) do
      --at;
    while (at > 0 && within(at));
  return at;
}

std::string with_spaces(std::string_view pieces) {
  std::string out;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool space = pieces.substr(i).starts_with(kSpace);
    out += space ? ' ' : pieces[i];
    if (space) i += kSpace.size() - 1;
  }
  const size_t first = out.find_first_not_of(' ');
  return first == std::string::npos ? "" : out.substr(first, out.find_last_not_of(' ') - first + 1);
}

}  // namespace

std::string dropped_words(const Tokenizer& tokenizer, std::string_view text, int max_length) {
  constexpr int kLongestWord = 24, kShown = 32;  // in characters
  const TokenLayout layout = tokenizer.layout(text);
  const auto kept = static_cast<size_t>(max_length - 1);
  if (layout.begins.size() <= kept) return "";
  const std::string_view all = layout.text;
  const size_t cut = layout.begins[kept];
  const size_t space = all.substr(0, cut).rfind(kSpace);
  const auto lead = static_cast<unsigned char>(all[cut]);
  const bool spaced = lead < 0xE3 || lead > 0xE9;  // Chinese and Japanese (U+3000 to U+9FFF) are not
  const bool word = spaced && space != all.npos && space >= moved(all, cut, -kLongestWord);
  const bool begins = all.substr(cut).starts_with(kSpace);
  const std::string tail = with_spaces(all.substr(word && !begins ? space : cut));
  size_t head = moved(tail, 0, kShown), end = moved(tail, tail.size(), -kShown / 2);
  if (head >= end) return tail;
  if (const size_t last = tail.rfind(' ', head); last != tail.npos) head = last;  // cut at a whole word
  if (const size_t next = tail.find(' ', end - 1); next != tail.npos) end = next + 1;
  return tail.substr(0, head) + " … " + tail.substr(end);
}

}  // namespace tachy
