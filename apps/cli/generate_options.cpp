#include "generate_options.h"

#include <charconv>

#include "api/fields.h"
#include "base/text_file.h"

namespace tachy::cli {
namespace {

bool is_given(const GivenField& field) {
  return std::visit([](const auto& value) { return value.has_value(); }, field);
}

template <class T>
void take(const GivenField& given, T& member) {
  if (const auto& value = std::get<std::optional<T>>(given)) member = *value;
}
template <class T>
void take(const GivenField& given, std::optional<T>& member) {
  if (const auto& value = std::get<std::optional<T>>(given)) member = value;
}

}  // namespace

void parse_size(const std::string& text, int& width, int& height) {
  const size_t cross = text.find_first_of("x*X");
  size_t used_w = 0, used_h = 0;
  try {
    require(cross != std::string::npos, "");
    width = std::stoi(text.substr(0, cross), &used_w);
    height = std::stoi(text.substr(cross + 1), &used_h);
    require(used_w == cross && used_h == text.size() - cross - 1 && width > 0 && height > 0, "");
  } catch (const std::exception&) {
    fail(ErrorCode::invalid_argument, "--size: expected WIDTHxHEIGHT such as 832x480, got '{}'", text);
  }
}

std::string check_seed(const std::string& text) {
  // The parser would read -1, which means a random seed in other programs, as 2^64 - 1, and would clamp
  // numbers that are too large.
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return "expected a whole number from 0 to 18446744073709551615, got '" + text + "'";
}

bool GenerateOptions::gives(const std::string& field) const {
  const auto says = fields.find(field);
  return says != fields.end() && is_given(says->second);
}

void GenerateOptions::apply(VideoRequest& r) const {
  if (!size.empty()) {
    int w = 0, h = 0;
    parse_size(size, w, h);
    r.width = w, r.height = h;
  }
  // If a level is given, it decides these three fields anew, unless they are also given; a preset does the
  // same for the fields that it sets.
  if (gives("level")) r.dtype.reset(), r.step_cache.reset(), r.residual.reset();
  if (gives("preset")) {
    r.steps.reset(), r.shift.reset(), r.sampler.reset(), r.grid.reset();
    r.guidance.reset(), r.guidance_2.reset(), r.high_noise_steps.reset();
  }
  for (const RequestField& field : request_fields())
    if (const auto says = fields.find(field.name); says != fields.end())
      std::visit([&](auto member) { take(says->second, r.*member); }, field.member);
}

bool has_second(const std::string& name) { return find_field(request_inputs(), name + "_2") != nullptr; }

void GenerateOptions::settle_pairs() {
  for (auto& [name, files] : pairs) {
    std::vector<std::string*> places{&inputs[name]};
    for (size_t i = 2; find_field(request_inputs(), fmt::format("{}_{}", name, i)); ++i)
      places.push_back(&inputs[fmt::format("{}_{}", name, i)]);
    size_t named = 0;
    for (size_t i = 1; i < places.size(); ++i) named += !places[i]->empty();
    require(files.size() + named <= places.size(), "`{}`: expected at most {}, got {}", name,
            places.size() == 2 ? "two, one for each speaker" : "four", files.size() + named);
    size_t at = 0;
    for (std::string& file : files) {
      while (!places[at]->empty()) ++at;
      *places[at] = std::move(file);
    }
    files.clear();
  }
}

std::vector<std::string> all_prompts(const GenerateOptions& o) {
  std::vector<std::string> out = o.prompts;
  if (o.prompt_file.empty()) return out;
  const std::string text = naming("--prompt-file", [&] { return read_text_file(o.prompt_file); });
  for (const std::string_view line : lines_of(text))
    if (line.find_first_not_of(" \t") != line.npos && line[0] != '#') out.emplace_back(line);
  require(!out.empty(), "--prompt-file: {} holds no prompt", o.prompt_file);
  return out;
}

}  // namespace tachy::cli
