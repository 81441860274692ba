#include "text/regex.h"

#include <fmt/format.h>
#include <oniguruma.h>

#include <mutex>

#include "base/error.h"

namespace tachy::text {
namespace {

constexpr unsigned long kMaxRetries = 10'000'000;  // steps of backtracking: about a second
constexpr unsigned kMaxStack = 1'000'000, kMaxNesting = 250;

struct RegionDeleter {
  void operator()(OnigRegion* region) const { onig_region_free(region, 1); }
};
struct ParamDeleter {
  void operator()(OnigMatchParam* param) const { onig_free_match_param(param); }
};

const OnigUChar* bytes_of(std::string_view text) { return reinterpret_cast<const OnigUChar*>(text.data()); }

void start_library() {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
    onig_set_parse_depth_limit(kMaxNesting);
  });
}

using Param = std::unique_ptr<OnigMatchParam, ParamDeleter>;
Param limits(unsigned long most_retries) {
  Param param(onig_new_match_param());
  check(param != nullptr, ErrorCode::out_of_memory, "regular expression: no memory for a search");
  onig_initialize_match_param(param.get());
  onig_set_retry_limit_in_match_of_match_param(param.get(), most_retries);
  onig_set_retry_limit_in_search_of_match_param(param.get(), most_retries);
  onig_set_match_stack_limit_size_of_match_param(param.get(), kMaxStack);
  return param;
}

[[noreturn]] void refuse(std::string_view where, std::string_view pattern, std::string_view why) {
  fail(ErrorCode::unsupported, "{}: the regular expression '{}' {}", where, pattern, why);
}

// Returns the first part of a pattern that Python's `re` refuses or understands differently, or "": escapes
// that Python lacks, POSIX brackets, and flags for the rest of a pattern (Python wants them at the front).
std::string_view unlike_python(std::string_view pattern) {
  constexpr std::string_view kEscapes = "AbBdDsSwWZafnrtvxuU", kFlags = "aiLmsux-";
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = pattern.substr(i);
    if (rest.starts_with("[[:")) return rest.substr(0, 3);
    if (rest.starts_with("(?")) {
      const size_t end = rest.find_first_not_of(kFlags, 2);
      if (end != rest.npos && end > 2 && rest[end] == ')') return rest.substr(0, end + 1);
    }
    if (rest[0] != '\\' || rest.size() < 2) continue;
    const bool letter = (rest[1] >= 'a' && rest[1] <= 'z') || (rest[1] >= 'A' && rest[1] <= 'Z');
    if (letter && kEscapes.find(rest[1]) == kEscapes.npos) return rest.substr(0, 2);
    ++i;
  }
  return {};
}

OnigRegex compile_in(std::string_view pattern, std::string_view where, OnigSyntaxType* syntax) {
  start_library();
  OnigRegex regex = nullptr;
  OnigErrorInfo info{};
  const int rc = onig_new(&regex, bytes_of(pattern), bytes_of(pattern) + pattern.size(), ONIG_OPTION_NONE,
                          ONIG_ENCODING_UTF8, syntax, &info);
  if (rc == ONIG_NORMAL) return regex;
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int size = onig_error_code_to_str(text, rc, &info);
  refuse(where, pattern,
         fmt::format("is not supported: {}",
                     std::string_view(reinterpret_cast<const char*>(text), size_t(size))));
}

}  // namespace

struct Regex::Compiled {
  std::string pattern, where;
  OnigRegex regex;

  Compiled(std::string_view text, std::string_view place, OnigSyntaxType* syntax)
      : pattern(text), where(place), regex(compile_in(text, place, syntax)) {}
  ~Compiled() { onig_free(regex); }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
};

Regex Regex::literal(std::string_view text) {
  Regex regex;
  regex.literal_ = text;
  return regex;
}

Regex Regex::compile(std::string_view pattern, std::string_view where) {
  Regex regex;
  regex.compiled_ = std::make_shared<const Compiled>(pattern, where, ONIG_SYNTAX_DEFAULT);
  regex.find("", 0);  // refuses a pattern that matches the empty text
  return regex;
}

Regex Regex::python(std::string_view pattern, std::string_view where) {
  const std::string_view odd = unlike_python(pattern);
  if (!odd.empty()) refuse(where, pattern, fmt::format("is not supported: {} is not Python's", odd));
  Regex regex;
  regex.compiled_ = std::make_shared<const Compiled>(pattern, where, ONIG_SYNTAX_PYTHON);
  return regex;
}

std::optional<std::pair<size_t, size_t>> Regex::find(std::string_view text, size_t from) const {
  if (!compiled_) {
    const size_t at = text.find(literal_, from);
    if (at == text.npos) return std::nullopt;
    return std::pair(at, at + literal_.size());
  }
  const std::unique_ptr<OnigRegion, RegionDeleter> region(onig_region_new());
  check(region != nullptr, ErrorCode::out_of_memory, "regular expression: no memory for a search");
  const Param param = limits(kMaxRetries);
  const OnigUChar *begin = bytes_of(text), *end = begin + text.size();
  const int rc = onig_search_with_param(compiled_->regex, begin, end, begin + from, end, region.get(),
                                        ONIG_OPTION_NONE, param.get());
  if (rc == ONIG_MISMATCH) return std::nullopt;
  if (rc < 0) refuse(compiled_->where, compiled_->pattern, "takes too long or too much memory on this text");
  if (region->end[0] <= region->beg[0])
    refuse(compiled_->where, compiled_->pattern, "is not supported: it matches the empty text");
  return std::pair(size_t(region->beg[0]), size_t(region->end[0]));
}

std::optional<bool> Regex::matches_start(std::string_view text, unsigned long most_retries) const {
  const OnigUChar *begin = bytes_of(text), *end = begin + text.size();
  const Param param = limits(most_retries);
  const int rc =
      onig_match_with_param(compiled_->regex, begin, end, begin, nullptr, ONIG_OPTION_NONE, param.get());
  if (rc == ONIG_MISMATCH || rc >= 0) return rc >= 0;
  return std::nullopt;
}

}  // namespace tachy::text
