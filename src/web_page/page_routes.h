// The addresses of the server's page: / is its HTML, and /page/NAME are its style and scripts. They answer without a
// key, since they hold nothing of anybody's; what the page shows it asks of /v1, with the key of whoever looks at it.
//
// A file's ETag is a hash of its content. A browser asks each time whether it has changed (no-cache) and mostly gets
// 304 without a body, so that nobody sees an old page with a new server.
#pragma once

#include "http/router.h"

namespace tachy::web_page {

void add_routes(http::Router& router);

}  // namespace tachy::web_page
