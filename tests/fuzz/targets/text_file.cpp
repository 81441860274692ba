// Fuzzes text that people write, in any encoding, and JSON in it. The result is UTF-8 with lines that end in
// LF; other input is refused with a place that lies in the file.
#include "base/text_file.h"

#include <nlohmann/json.hpp>

#include "../../../apps/cli/lora_tags.h"
#include "../fuzz_input.h"
#include "base/json_text.h"
#include "base/utf8.h"

using namespace tachy;

namespace {

void tags_of(std::string_view prompt) {
  fuzz::expect_error_or_result([&] {
    const cli::TaggedPrompt tagged = cli::take_lora_tags(prompt);
    if (find_invalid_utf8(tagged.prompt) != kValidUtf8) std::abort();
    size_t bytes = tagged.prompt.size();
    for (const cli::LoraTag& tag : tagged.tags) {
      if (tag.name.empty() || !(tag.weight >= -100 && tag.weight <= 100)) std::abort();
      bytes += tag.text.size();
    }
    if (bytes > prompt.size() || (tagged.tags.empty() && tagged.prompt != prompt)) std::abort();
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::MemoryFile file;
  file.set(fuzz::view(data, size));
  std::string text;
  try {
    text = read_text_file(file.path());
  } catch (const Error& e) {
    if (e.code() != ErrorCode::corrupt || e.message().find("line ") == std::string::npos) std::abort();
    return 0;
  }
  if (find_invalid_utf8(text) != kValidUtf8 || text.find_first_of(std::string_view("\r\0", 2)) != text.npos)
    std::abort();
  for (const std::string_view line : lines_of(text)) {
    if (line.find('\n') != line.npos) std::abort();
    tags_of(line);
  }
  fuzz::expect_error_or_result([&] { (void)parse_json_text(text, "run.json"); });
  return 0;
}
