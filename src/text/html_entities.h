// The named character references of HTML 5 (data in html_entities.inc, made by tools/make_html_entities.py).
#pragma once

#include <cstddef>

namespace tachy::text {

// These are plain pointers, because with string_views the compiler would have to count 9,000 lengths.
struct HtmlEntity {
  const char* name;  // without "&"; with or without ";", as HTML 5 lists it
  const char* text;  // UTF-8
};

extern const HtmlEntity kHtml5Entities[];  // sorted by name
extern const size_t kHtml5EntityCount;
extern const HtmlEntity kUpperCaseEntities[];  // "EACUTE;" and the like, which ftfy accepts as well
extern const size_t kUpperCaseEntityCount;

}  // namespace tachy::text
