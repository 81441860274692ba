#include "serve/http_connection.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "serve/page_files.h"
#include "serve/socket_session.h"

namespace tachy::serve {
namespace {

namespace beast = boost::beast;
using nlohmann::json;

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

// When a visitor reloads the page, the old connection may end only after the new one has asked for the world.
constexpr std::chrono::milliseconds kSecondLook{400};

}  // namespace

HttpConnection::HttpConnection(Hub& hub, Socket socket)
    : hub_(hub),
      connections_(hub.connections),
      stream_(std::move(socket)),
      buffer_(hub.limits().header_bytes * 2),
      timer_(hub.executor) {
  ++*connections_;
}

HttpConnection::HttpConnection(Hub& hub, tachy::http::HandedOver handed, std::string_view inner)
    : HttpConnection(hub, std::move(handed.socket)) {
  const std::string_view asked = view(handed.parser->get().target());
  target_ = std::string(inner) + std::string(asked.substr(path_of(asked).size()));
  known_ = !hub.tickets() || !handed.request.caller.key.empty();
  buffer_ = std::move(handed.rest);
  parser_.emplace(std::move(*handed.parser));
  parser_->body_limit(hub.limits().upload_bytes);
}

HttpConnection::~HttpConnection() { --*connections_; }

void HttpConnection::run() {
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(hub_.limits().header_bytes));
  parser_->body_limit(hub_.limits().upload_bytes);
  stream_.expires_after(hub_.limits().request);
  read_header();
}

// Beast's own limit is for the fields that have not been parsed yet, so it would let any number of them in.
void HttpConnection::read_header() {
  http::async_read_some(stream_, buffer_, *parser_,
                        [self = shared_from_this()](error_code error, size_t bytes) {
                          self->header_bytes_ += bytes;
                          if (!error && self->header_bytes_ > self->hub_.limits().header_bytes)
                            error = http::error::header_limit;
                          if (error || self->parser_->is_header_done()) return self->on_header(error);
                          self->read_header();
                        });
}

std::string_view HttpConnection::header(http::field name) const { return view(parser_->get()[name]); }
std::string_view HttpConnection::token() const { return query_value(target(), "token"); }

void HttpConnection::on_header(error_code error) {
  if (error == http::error::body_limit)
    return send(text_reply(http::status::payload_too_large, "text/plain",
                           fmt::format("The request is too large: at most {} bytes are accepted.\n",
                                       hub_.limits().upload_bytes)));
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return send(text_reply(http::status::request_header_fields_too_large, "text/plain",
                           "The request is too long.\n"));
  const auto& parsing = http::make_error_code(http::error::end_of_stream).category();
  if (error.category() == parsing && error != http::error::end_of_stream &&
      error != http::error::partial_message)
    return send(text_reply(http::status::bad_request, "text/plain", "This is not an HTTP request.\n"));
  if (error) return;  // the visitor is gone, or too slow
  target_ = view(parser_->get().target());
  if (target_.empty() || target_.front() != '/')
    return send(text_reply(http::status::bad_request, "text/plain", "Expected a path.\n"));
  answer();
}

bool HttpConnection::refused() {
  if (!hub_.access) return false;
  const std::string_view host = header(http::field::host), origin = header(http::field::origin);
  const bool from_a_page =
      parser_->get().method() == http::verb::post || beast::websocket::is_upgrade(parser_->get());
  const char* why = nullptr;
  if (!hub_.access->host_allowed(host))
    why = "This server does not answer to that name. Open the address that it printed.";
  else if ((from_a_page || !origin.empty()) && !Access::origin_allowed(origin, host))
    why = "This request comes from a page that is not this server's own.";
  else if (!hub_.access->token_allowed(token()) && !find_page_file(path_of(target()).substr(1)))
    why = "A token is needed. Open the whole address that the server printed, with its token.";
  if (why) answer_html(http::status::forbidden, "refused.html", why);
  return why != nullptr;
}

void HttpConnection::answer() {
  const auto& request = parser_->get();
  if (refused()) return;
  const std::string_view path = path_of(target());
  if (path == "/socket") return become_socket();
  if (path == "/picture" && request.method() == http::verb::post) return answer_upload();
  if (request.method() != http::verb::get || path == "/picture") {
    const char* const allowed = path == "/picture" ? "POST" : "GET";
    TextReply reply = text_reply(http::status::method_not_allowed, "text/plain",
                                 fmt::format("This address only accepts {} requests.\n", allowed));
    reply.set(http::field::allow, allowed);
    return send(std::move(reply));
  }
  answer_get(path);
}

void HttpConnection::answer_get(std::string_view path) {
  if (path == "/" || path.empty()) return answer_page(false);
  if (path == "/state")
    return send(json_reply(http::status::ok,
                           json_line(json{{"busy", hub_.busy()}, {"text", hub_.busy() ? kBusy : ""}})));
  if (path == "/recording") return answer_recording();
  // The HTML pages cannot be requested by their file names.
  const PageFile* const file = find_page_file(path.substr(1));
  if (file && !file->name.ends_with(".html"))
    return send(text_reply(http::status::ok, file->type, std::string(file->text)));
  send(text_reply(http::status::not_found, "text/plain", "There is no such page.\n"));
}

void HttpConnection::answer_page(bool second_look) {
  // Where keys are needed, whoever has none is not told who is here; the page asks once it has a key.
  if (!hub_.busy() || hub_.tickets()) return answer_html(http::status::ok, "index.html");
  if (second_look) return answer_html(http::status::service_unavailable, "busy.html", kBusy);
  stream_.expires_never();
  timer_.expires_after(kSecondLook);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->answer_page(true);
  });
}

void HttpConnection::answer_recording() {
  const auto file = hub_.shelf->find(query_value(target(), "id"));
  const auto reply = file ? file_reply(*file) : nullptr;
  if (!reply) return send(text_reply(http::status::not_found, "text/plain", "There is no such recording.\n"));
  write(reply);  // the file stays readable while it is open
}

void HttpConnection::answer_upload() {
  const std::string_view session = query_value(target(), "session");
  if (!hub_.visitor || !hub_.visitor->is(session))
    return send(text_reply(http::status::forbidden, "text/plain",
                           "Only the visitor who is walking through the world may send a picture.\n"));
  if (!hub_.world->info().takes_image)
    return send(
        text_reply(http::status::conflict, "text/plain", "This world does not begin with a picture.\n"));
  if (!hub_.world->info().no_image_encoder.empty())
    return send(text_reply(
        http::status::conflict, "text/plain",
        "This world cannot take another picture: it always begins with the one that it was started with.\n"));
  // The parser itself looks at the length only while it reads the header, which a door has not done.
  if (parser_->content_length().value_or(0) > hub_.limits().upload_bytes)
    return send(
        text_reply(http::status::payload_too_large, "text/plain", "The picture's file is too large.\n"));
  stream_.expires_after(hub_.limits().upload);
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](error_code error, size_t) { self->on_body(error); });
}

void HttpConnection::on_body(error_code error) {
  if (error == http::error::body_limit)
    return send(
        text_reply(http::status::payload_too_large, "text/plain", "The picture's file is too large.\n"));
  if (error) return;
  if (!hub_.visitor || !hub_.visitor->is(query_value(target(), "session")))
    return send(text_reply(http::status::forbidden, "text/plain", "The visit has ended.\n"));
  if (parser_->get().body().empty())
    return send(text_reply(http::status::bad_request, "text/plain", "The picture's file is empty.\n"));
  hub_.visitor->picture(std::move(parser_->get().body()));
  // The thread that decodes the file reports through the socket whether it is a picture.
  send(json_reply(http::status::accepted, "{}"));
}

void HttpConnection::become_socket() {
  if (!beast::websocket::is_upgrade(parser_->get()))
    return send(text_reply(http::status::upgrade_required, "text/plain",
                           "This address only accepts WebSocket connections.\n"));
  if (known_ && hub_.busy())
    return send(text_reply(http::status::service_unavailable, "text/plain", std::string(kBusy) + "\n"));
  stream_.expires_never();
  const auto session = std::make_shared<SocketSession>(hub_, stream_.release_socket(), known_);
  if (!hub_.enter) hub_.visitor = session;
  session->run(parser_->release());
}

// The pages name their files relative to the world's own page, which may be asked for without its last slash.
void HttpConnection::answer_html(http::status status, std::string_view file, std::string_view text) {
  const std::string_view path = path_of(target());
  std::string root = path.empty() ? hub_.name + "/" : "";
  for (auto left = std::count(path.begin(), path.end(), '/'); left > 1; --left) root += "../";
  send(page_reply(
      status, file,
      {{"{{text}}", text}, {"{{root}}", root}, {"{{tickets}}", hub_.tickets() ? "needed" : "no"}}));
}

void HttpConnection::send(TextReply reply) { write(std::make_shared<TextReply>(std::move(reply))); }

template <class Body>
void HttpConnection::write(std::shared_ptr<http::response<Body>> reply) {
  constexpr bool file = std::is_same_v<Body, http::file_body>;
  stream_.expires_after(file ? std::chrono::minutes(10) : std::chrono::minutes(1));
  http::async_write(stream_, *reply, [self = shared_from_this(), reply](error_code error, size_t) {
    if (!error) self->linger();
  });
}

// If a connection is closed with bytes unread, it is reset, and the reply may be lost on its way.
void HttpConnection::linger() {
  error_code ignored;
  stream_.socket().shutdown(Socket::shutdown_send, ignored);
  stream_.expires_after(std::chrono::seconds(2));
  drain();
}

void HttpConnection::drain() {
  stream_.async_read_some(boost::asio::buffer(rest_), [self = shared_from_this()](error_code error, size_t) {
    if (!error) self->drain();
  });
}

}  // namespace tachy::serve
