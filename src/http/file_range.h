// Which bytes of a file answer a request: Range, If-Range and If-None-Match (RFC 9110, 13 and 14). One range
// is served; a request for several gets the whole file, as one whose Range is malformed does.
#pragma once

#include <cstdint>
#include <string_view>

#include "http/message.h"

namespace tachy::http {

struct FileAnswer {
  int status = 200;  // 200, 206, 304 or 416
  uint64_t from = 0, bytes = 0;
  Pairs headers;  // Accept-Ranges, ETag, Content-Range
};

FileAnswer answer_file(const Request& request, uint64_t size, std::string_view etag);

// Says whether an If-None-Match has this ETag, where a weak one counts as the same, or is "*".
bool etag_matches(std::string_view list, std::string_view etag);

}  // namespace tachy::http
