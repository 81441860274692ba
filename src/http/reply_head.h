// The head of a reply as bytes: the status line and the headers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace tachy::http {

struct HeadShape {
  std::optional<uint64_t> length;  // of the content; nothing: it is not known, or there is none
  bool chunked = false;
  bool keep_alive = true;
  bool http_1_0 = false;  // the other side speaks the older version
};

// Date, Content-Length, Transfer-Encoding and Connection come from here, whatever `headers` say of them.
// Where `headers` leave them out, Cache-Control is no-store (of content with an ETag: no-cache), and
// X-Content-Type-Options is nosniff. A control character in a value becomes a space, so that no value can
// begin another header.
std::string reply_head(int status, const Pairs& headers, const HeadShape& shape);

std::string_view reason_phrase(int status);  // "Not Found"

}  // namespace tachy::http
