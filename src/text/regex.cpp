#include "text/regex.h"

#include <oniguruma.h>

#include <mutex>

#include "base/error.h"

namespace tachy::text {
namespace {

constexpr unsigned long kMaxRetries = 10'000'000;  // of backtracking, about a second
constexpr unsigned kMaxStack = 1'000'000, kMaxDepth = 250;

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
    onig_set_parse_depth_limit(kMaxDepth);
  });
}

}  // namespace

struct Regex::Compiled {
  std::string pattern, where;
  OnigRegex regex = nullptr;
  ~Compiled() { onig_free(regex); }
};

Regex Regex::literal(std::string_view text) {
  Regex regex;
  regex.literal_ = text;
  return regex;
}

Regex Regex::compile(std::string_view pattern, std::string_view where) {
  start_library();
  auto compiled = std::make_shared<Compiled>();
  compiled->pattern = pattern, compiled->where = where;
  OnigErrorInfo info{};
  const int rc = onig_new(&compiled->regex, bytes_of(pattern), bytes_of(pattern) + pattern.size(),
                          ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
  if (rc != ONIG_NORMAL) {
    OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
    const int size = onig_error_code_to_str(text, rc, &info);
    fail(ErrorCode::unsupported, "{}: the regular expression '{}' is not supported: {}", where, pattern,
         std::string_view(reinterpret_cast<const char*>(text), size_t(size)));
  }
  Regex regex;
  regex.compiled_ = std::move(compiled);
  regex.find("", 0);  // refuses what matches the empty text
  return regex;
}

std::optional<std::pair<size_t, size_t>> Regex::find(std::string_view text, size_t from) const {
  if (!compiled_) {
    const size_t at = text.find(literal_, from);
    if (at == text.npos) return std::nullopt;
    return std::pair(at, at + literal_.size());
  }
  const std::unique_ptr<OnigRegion, RegionDeleter> region(onig_region_new());
  const std::unique_ptr<OnigMatchParam, ParamDeleter> param(onig_new_match_param());
  check(region && param, ErrorCode::out_of_memory, "tokenizer: no memory for a search");
  onig_initialize_match_param(param.get());
  onig_set_retry_limit_in_match_of_match_param(param.get(), kMaxRetries);
  onig_set_retry_limit_in_search_of_match_param(param.get(), kMaxRetries);
  onig_set_match_stack_limit_size_of_match_param(param.get(), kMaxStack);
  const OnigUChar *begin = bytes_of(text), *end = begin + text.size();
  const int rc = onig_search_with_param(compiled_->regex, begin, end, begin + from, end, region.get(),
                                        ONIG_OPTION_NONE, param.get());
  if (rc == ONIG_MISMATCH) return std::nullopt;
  check(rc >= 0, ErrorCode::unsupported,
        "{}: the regular expression '{}' takes too long or too much memory on this text", compiled_->where,
        compiled_->pattern);
  check(region->end[0] > region->beg[0], ErrorCode::unsupported,
        "{}: the regular expression '{}' is not supported: it matches the empty text", compiled_->where,
        compiled_->pattern);
  return std::pair(size_t(region->beg[0]), size_t(region->end[0]));
}

}  // namespace tachy::text
