#include "web_page/page_routes.h"

#include <string>

#include "base/sha256.h"
#include "web_page/page_files.h"

namespace tachy::web_page {
namespace {

// Nothing runs, and nothing is fetched, that is not this server's. Scripts cannot make HTML of texts, either: the page
// has no policy for trusted types, so such an assignment throws.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' "
    "blob:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

http::Pairs headers_of(const PageFile& file) {
  Sha256 hash;
  hash.add(file.text);
  return {{"Content-Type", std::string(file.type)},
          {"Cache-Control", "no-cache"},
          {"ETag", "\"" + hash.hex().substr(0, 32) + "\""},  // src/http compares it
          {"Content-Security-Policy", kPolicy},
          {"X-Content-Type-Options", "nosniff"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cross-Origin-Resource-Policy", "same-origin"}};
}

void add_file(http::Router& router, const std::string& address, const PageFile& file) {
  const auto answer = [&file, headers = headers_of(file)](http::Request&) {
    http::Reply reply;
    reply.headers = headers;
    reply.body = std::string(file.text);
    return reply;
  };
  router.add({.method = "GET", .pattern = address, .handler = answer, .open = true});
}

}  // namespace

void add_routes(http::Router& router) {
  for (const PageFile& file : page_files())
    add_file(router, file.name == "index.html" ? "/" : "/page/" + std::string(file.name), file);
}

}  // namespace tachy::web_page
