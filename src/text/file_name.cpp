#include "text/file_name.h"

#include <utf8proc.h>

#include "base/whole_characters.h"
#include "text/utf8.h"

namespace tachy::text {
namespace {

enum class Kind { kept, joined, nothing, dash };

// Says how a character is treated. A `joined` one is kept only after a character that is kept.
Kind kind_of(char32_t c) {
  const utf8proc_property_t& p = *utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  if (p.ignorable) return Kind::nothing;
  switch (p.category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return Kind::kept;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return Kind::joined;
    case UTF8PROC_CATEGORY_SK:  // an emoji's skin colour
      return c >= 0x1F3FB && c <= 0x1F3FF ? Kind::joined : Kind::dash;
    case UTF8PROC_CATEGORY_SO: {
      const bool flag = p.boundclass == UTF8PROC_BOUNDCLASS_REGIONAL_INDICATOR;
      return flag || p.boundclass == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC ? Kind::kept : Kind::dash;
    }
    default:
      return Kind::dash;
  }
}

}  // namespace

std::string file_name_of(std::string_view text, size_t max_bytes) {
  if (find_invalid_utf8(text) != kValid) return "";
  std::u32string kept;
  for (const char32_t c : to_utf32(normalize(lowercase(normalize(text, Form::nfc)), Form::nfc))) {
    const Kind kind = kind_of(c);
    const bool behind = !kept.empty() && kept.back() != U'-';
    if (kind == Kind::kept || (kind == Kind::joined && behind))
      kept += c;
    else if (kind == Kind::dash && behind)
      kept += U'-';
  }
  // A character that was left out may have separated two that belong together.
  const std::u32string chars = to_utf32(normalize(to_utf8(kept), Form::nfc));
  std::string out, cluster;
  utf8proc_int32_t state = 0;
  for (size_t i = 0; i < chars.size(); ++i) {
    append_utf8(cluster, chars[i]);
    const bool ends = i + 1 == chars.size() ||
                      utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(chars[i]),
                                                       static_cast<utf8proc_int32_t>(chars[i + 1]), &state);
    if (!ends) continue;
    if (out.size() + cluster.size() > max_bytes) break;
    out += cluster;
    cluster.clear();
  }
  if (out.empty()) out = whole_characters(cluster, max_bytes);  // a single letter with a hundred accents
  while (out.ends_with('-')) out.pop_back();
  return out;
}

}  // namespace tachy::text
