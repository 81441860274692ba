// Writes replies: texts and files in pieces, so that each piece has its own time to be taken, and event
// streams.
#include <algorithm>
#include <atomic>
#include <boost/asio/write.hpp>
#include <utility>

#include "http/connection.h"
#include "http/reply_head.h"

namespace tachy::http {
namespace {

constexpr size_t kPiece = 128 << 10;
constexpr size_t kEvents = 64 << 10;  // events are sent together up to about this size
constexpr std::chrono::seconds kLinger{2};

}  // namespace

void Connection::refuse(int status, const std::exception* error) {
  Answer answer = answer_error(status, error, *request_, core_.options);
  if (status == 405) {
    std::string methods;
    for (const std::string& method : found_.other_methods)
      methods += (methods.empty() ? "" : ", ") + method + (method == "GET" ? ", HEAD" : "");
    answer.headers.emplace_back("Allow", methods);
  }
  const auto says_when = [](const auto& header) { return header.first == "Retry-After"; };
  if (status == 503 && std::ranges::none_of(answer.headers, says_when))
    answer.headers.emplace_back("Retry-After", "1");
  send(std::move(answer));
}

void Connection::send(Answer answer) {
  if (phase_ == Phase::gone) return;
  set_phase(Phase::writing);
  answer_ = std::move(answer);
  sent_ = 0;
  try {
    if (core_.options.answered)
      core_.options.answered(found_.route ? found_.route->pattern : "", request_->method, answer_.status);
  } catch (const std::exception&) {
    // A metric is not worth a reply.
  }
  const bool old = parser_->get().version() < 11;
  const bool bare = answer_.status < 200 || answer_.status == 204 || answer_.status == 304;
  chunked_ = answer_.feed && !old && !bare;
  closing_ = closing_ || core_.stopping || !keep_alive_ || !body_read_ || (answer_.feed && old);
  HeadShape shape{.chunked = chunked_, .keep_alive = !closing_, .http_1_0 = old};
  if (!bare && !answer_.feed) shape.length = answer_.file ? answer_.bytes : answer_.text.size();
  std::string head = reply_head(answer_.status, answer_.headers, shape);
  if (bare || request_->method == "HEAD") {
    answer_.text.clear(), answer_.file = nullptr;
    drop_feed();
  }
  if (answer_.feed) return write(std::move(head), &Connection::begin_events);
  if (answer_.file) return write(std::move(head), &Connection::read_file);
  if (answer_.text.size() <= kPiece) {
    head += answer_.text;
    sent_ = answer_.text.size();
  }
  write(std::move(head), &Connection::write_text);
}

void Connection::write(std::string bytes, void (Connection::*then)()) {
  out_ = std::move(bytes);
  if (phase_ != Phase::body) allow(core_.options.limits.stalled);
  boost::asio::async_write(socket_, boost::asio::buffer(out_),
                           [self = shared_from_this(), then, phase = phase_](error_code error, size_t) {
                             if (self->phase_ != phase) return;
                             if (error) return self->close();
                             (self.get()->*then)();
                           });
}

void Connection::write_text() {
  if (sent_ >= answer_.text.size()) return finish_reply();
  std::string piece = answer_.text.substr(sent_, kPiece);
  sent_ += piece.size();
  write(std::move(piece), &Connection::write_text);
}

// The disk may be slow, so another thread reads.
void Connection::read_file() {
  if (answer_.bytes == 0) return finish_reply();
  wait();
  const auto count = static_cast<size_t>(std::min<uint64_t>(answer_.bytes, kPiece));
  core_.files.add(
      [self = shared_from_this(), file = answer_.file, from = answer_.from, count, &core = core_]() mutable {
        auto piece = std::make_shared<std::string>(count, '\0');
        std::error_code error;
        piece->resize(file->read_at(from, piece->data(), count, error));
        if (error) piece->clear();
        file = nullptr;
        core.door->post([self = std::move(self), piece] { self->write_piece(std::move(*piece)); });
      });
}

void Connection::write_piece(std::string piece) {
  if (phase_ != Phase::writing) return;
  // A file that cannot be read any more ends the connection before the promised length.
  if (piece.empty()) return close();
  answer_.from += piece.size(), answer_.bytes -= piece.size();
  write(std::move(piece), &Connection::read_file);
}

void Connection::begin_events() {
  set_phase(Phase::streaming);
  const auto waking = std::make_shared<std::atomic<bool>>(false);
  answer_.feed->on_news([waking, door = core_.door, weak = weak_from_this()] {
    if (waking->exchange(true)) return;  // the thread of the sockets has not come to it yet
    door->post([waking, weak] {
      *waking = false;
      if (const auto self = weak.lock()) self->on_news();
    });
  });
  watch_for_the_end();
  spoke_ = Clock::now();
  pump_events();
}

void Connection::on_news() {
  if (phase_ == Phase::streaming && !pumping_) pump_events();
}

// Writes the events that are there, or a comment if nothing was said for long. It is called again when that
// is written, when there is news, and when a comment is due.
void Connection::pump_events() {
  pumping_ = false;
  std::string events;
  bool ended = closing_ && core_.stopping;
  try {
    while (events.size() < kEvents) {
      auto next = answer_.feed->next();
      if (!next) {
        ended = ended || answer_.feed->ended();
        break;
      }
      events += *next;
    }
  } catch (const std::exception&) {
    return close();
  }
  const auto now = Clock::now();
  if (events.empty() && ended) return end_events();
  if (events.empty() && now - spoke_ >= core_.options.limits.alive) events = ":\n\n";
  if (events.empty()) return allow(core_.options.limits.alive - (now - spoke_));
  spoke_ = now;
  pumping_ = true;
  if (chunked_) events = fmt::format("{:x}\r\n{}\r\n", events.size(), events);
  write(std::move(events), &Connection::pump_events);
}

void Connection::end_events() {
  drop_feed();
  error_code ignored;
  socket_.cancel(ignored);  // the watch for the end
  set_phase(Phase::writing);
  if (!chunked_) return finish_reply();
  write("0\r\n\r\n", &Connection::finish_reply);
}

// A listener that has gone is noticed at once, not when the next event cannot be written.
void Connection::watch_for_the_end() {
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](error_code error) {
    if (error || self->phase_ != Phase::streaming) return;
    error_code failed;
    if (self->socket_.available(failed) == 0 || failed) self->close();
  });
}

void Connection::drop_feed() {
  if (answer_.feed) answer_.feed->on_news([] {});
  answer_.feed = nullptr;
}

void Connection::finish_reply() {
  if (closing_ || core_.stopping) return linger();
  begin_request();
}

// If a connection is closed with bytes unread, it is reset, and the reply may be lost on its way.
void Connection::linger() {
  set_phase(Phase::lingering);
  drop_form();
  error_code ignored;
  socket_.cancel(ignored);  // a body may still be read
  socket_.shutdown(Socket::shutdown_send, ignored);
  allow(kLinger);
  drain();
}

void Connection::drain() {
  socket_.async_read_some(boost::asio::buffer(rest_), [self = shared_from_this()](error_code error, size_t) {
    if (self->phase_ != Phase::lingering) return;
    if (error) return self->close();
    self->drain();
  });
}

}  // namespace tachy::http
