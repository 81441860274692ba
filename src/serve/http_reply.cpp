#include "serve/http_reply.h"

#include "base/error.h"
#include "serve/page_files.h"

namespace tachy::serve {
namespace {

// The page runs only its own scripts, talks only to its own server, and cannot be framed by another page.
void add_headers(http::fields& head, std::string_view type) {
  const auto sv = [](std::string_view text) { return boost::beast::string_view(text.data(), text.size()); };
  head.set(http::field::content_type, sv(type));
  head.set(http::field::cache_control, "no-store");
  head.set("Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src "
           "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  head.set("X-Content-Type-Options", "nosniff");
  head.set("X-Frame-Options", "DENY");
  head.set("Referrer-Policy", "no-referrer");
  head.set("Cross-Origin-Resource-Policy", "same-origin");
}

}  // namespace

TextReply text_reply(http::status status, std::string_view type, std::string text) {
  TextReply reply{status, 11};
  add_headers(reply, type);
  if (status == http::status::service_unavailable) reply.set(http::field::retry_after, "2");
  reply.keep_alive(false);
  reply.body() = std::move(text);
  reply.prepare_payload();
  return reply;
}

TextReply page_reply(http::status status, std::string_view file, Marks marks) {
  const PageFile* const page = find_page_file(file);
  check(page != nullptr, ErrorCode::internal, "page: no file {}", file);
  std::string body(page->text);
  for (const auto& [mark, text] : marks)
    for (size_t at = body.find(mark); at != body.npos; at = body.find(mark, at + text.size()))
      body.replace(at, mark.size(), text);
  return text_reply(status, page->type, std::move(body));
}

TextReply json_reply(http::status status, const std::string& json) {
  return text_reply(status, "application/json", json);
}

std::shared_ptr<FileReply> file_reply(const RecordedFile& file) {
  auto reply = std::make_shared<FileReply>(http::status::ok, 11);
  boost::beast::error_code ec;
  reply->body().open(file.path.c_str(), boost::beast::file_mode::scan, ec);
  if (ec) return nullptr;
  add_headers(*reply, "video/mp4");
  reply->set(http::field::content_disposition, "attachment; filename=\"world.mp4\"");
  reply->keep_alive(false);
  reply->prepare_payload();
  return reply;
}

}  // namespace tachy::serve
