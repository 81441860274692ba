// Reads the body of a request: a text into memory, a form into the spool.
#include <algorithm>
#include <boost/asio/write.hpp>
#include <exception>
#include <utility>

#include "http/connection.h"

namespace tachy::http {
namespace {

constexpr size_t kReadPiece = 128 << 10;
// A body must come at this rate at least, so that a sender cannot hold a connection with a byte now and then.
constexpr uint64_t kLeastBytesPerSecond = 1024;

}  // namespace

void Connection::begin_body() {
  const Limits& limits = core_.options.limits;
  BodyKind kind;
  try {
    kind = body_kind(*request_, has_body_);
    most_bytes_ = kind.kind == Request::Body::multipart ? limits.upload_bytes : limits.text_bytes;
    if (kind.unsupported) return refuse(415);
    if (parser_->content_length().value_or(0) > most_bytes_) return refuse_length();
    if (kind.kind == Request::Body::multipart)
      form_ = std::make_shared<Form>(
          kind.boundary,
          MultipartLimits{
              .parts = limits.parts, .text_bytes = limits.text_bytes, .bytes = limits.upload_bytes},
          core_.spool);
  } catch (const std::exception& e) {
    return refuse(400, &e);
  }
  request_->body_kind = kind.kind;
  if (!has_body_) return dispatch();
  set_phase(Phase::body);
  body_began_ = Clock::now();
  parser_->eager(true);
  const bool expects = equal_names(request_->header("Expect"), "100-continue");
  if (!expects || buffer_.size() > 0 || parser_->get().version() < 11) return read_body();
  allow(limits.stalled);
  write("HTTP/1.1 100 Continue\r\n\r\n", &Connection::read_body);
}

void Connection::refuse_length() {
  const TooLarge error(fmt::format("the body is too large: at most {} bytes are accepted", most_bytes_));
  refuse(413, &error);
}

// Gives what the buffer has of the body to piece_. Returns false for a malformed one.
bool Connection::parse_body() {
  namespace http = boost::beast::http;
  piece_.resize(buffer_.size());
  auto& body = parser_->get().body();
  body.data = piece_.data(), body.size = piece_.size(), body.more = true;
  error_code error;
  const size_t parsed = parser_->put(buffer_.data(), error);
  buffer_.consume(parsed);
  piece_.resize(piece_.size() - body.size);
  if (error && error != http::error::need_more && error != http::error::need_buffer) return false;
  return parsed > 0 || buffer_.size() < buffer_.max_size();  // else the line between two chunks is endless
}

void Connection::read_body() {
  const Limits& limits = core_.options.limits;
  while (!parser_->is_done() && buffer_.size() > 0) {
    const size_t before = buffer_.size();
    if (!parse_body()) return refuse(400);
    received_ += piece_.size();
    if (received_ > most_bytes_) return refuse_length();
    if (form_ && !piece_.empty()) return spool_piece();
    request_->body += piece_;
    if (buffer_.size() == before) break;
  }
  if (parser_->is_done()) return finish_body();
  const auto since = Clock::now() - body_began_;
  const auto due = std::chrono::seconds(received_ / kLeastBytesPerSecond) + limits.stalled;
  allow(std::clamp<Clock::duration>(due - since, std::chrono::milliseconds(1), limits.stalled));
  read_more(kReadPiece, &Connection::read_body);
}

// The disk may be slow, so another thread writes and hashes. The next piece is read after that.
void Connection::spool_piece() {
  wait();
  core_.files.add(
      [self = shared_from_this(), form = form_, piece = std::move(piece_), &core = core_]() mutable {
        std::exception_ptr failed;
        try {
          form->push(piece);
        } catch (...) {
          failed = std::current_exception();
        }
        form = nullptr;
        core.door->post([self = std::move(self), failed = std::move(failed)] { self->on_spooled(failed); });
      });
}

void Connection::on_spooled(std::exception_ptr failed) {
  if (phase_ != Phase::body) return drop_form();
  if (!failed) return read_body();
  refuse_body(failed);
}

// Removing large files takes its time, too.
void Connection::drop_form() {
  if (form_) core_.files.add([form = std::move(form_)]() mutable { form = nullptr; });
  form_ = nullptr;
}

void Connection::refuse_body(std::exception_ptr failed) {
  drop_form();
  try {
    std::rethrow_exception(failed);
  } catch (const TooLarge& e) {
    refuse(413, &e);
  } catch (const Error& e) {
    refuse(e.code() == ErrorCode::invalid_argument ? 400 : 500, &e);
  } catch (const std::exception& e) {
    refuse(500, &e);
  }
}

void Connection::finish_body() {
  body_read_ = true;
  if (form_) try {
      request_->parts = form_->finish();
      form_ = nullptr;
    } catch (...) {
      return refuse_body(std::current_exception());
    }
  dispatch();
}

}  // namespace tachy::http
