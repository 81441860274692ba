#include "http/connection.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "http/take_over.h"
#include "http/uri.h"

namespace tachy::http {
namespace {

namespace beast = boost::beast;
using boost::asio::ip::tcp;

constexpr size_t kRead = 8 << 10;        // bytes asked for at once of a header
constexpr size_t kReadBody = 128 << 10;  // and of a body

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Connection::Connection(Core& core, Socket socket)
    : core_(core),
      socket_(std::move(socket)),
      buffer_(2 * core.options.limits.header_bytes + kReadBody),
      timer_(core.io) {
  core_.connections.insert(this);
}

Connection::~Connection() {
  set_phase(Phase::gone);
  core_.connections.erase(this);
}

void Connection::run() {
  error_code error;
  socket_.set_option(tcp::no_delay(true), error);
  const tcp::endpoint other = socket_.remote_endpoint(error);
  if (error) return;  // it is gone already
  auto address = other.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    address = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
  peer_ = address.to_string();
  loopback_ = address.is_loopback();
  begin_request();
}

void Connection::set_phase(Phase phase) {
  const auto waits = [](Phase p) { return p == Phase::idle || p == Phase::header; };
  if (waits(phase_) && !waits(phase)) core_.idle.erase(idle_at_);
  if (!waits(phase_) && waits(phase)) idle_at_ = core_.idle.insert(core_.idle.end(), this);
  phase_ = phase;
}

void Connection::allow(Clock::duration time) {
  deadline_ = Clock::now() + time;
  if (deadline_ < armed_) arm();
}

void Connection::wait() { deadline_ = Clock::time_point::max(); }

// The timer is not set anew while it is set for an earlier moment: most requests come and go before it fires.
void Connection::arm() {
  armed_ = deadline_;
  timer_.expires_at(armed_);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (error || self->phase_ == Phase::gone) return;
    self->armed_ = Clock::time_point::max();
    if (self->deadline_ == Clock::time_point::max()) return;
    if (Clock::now() < self->deadline_) return self->arm();
    self->on_late();
  });
}

void Connection::on_late() {
  wait();
  if (phase_ == Phase::header || phase_ == Phase::body) {
    error_code ignored;
    socket_.cancel(ignored);  // what is being read does not come any more
    body_read_ = false;
    return refuse(408);
  }
  if (phase_ == Phase::streaming && !pumping_) return pump_events();  // a comment is due
  if (phase_ != Phase::handling) close();
}

void Connection::begin_request() {
  const Limits& limits = core_.options.limits;
  parser_ = std::make_unique<Parser>();
  parser_->header_limit(static_cast<uint32_t>(limits.header_bytes));
  parser_->body_limit(UINT64_MAX);  // bodies are counted here, because each kind has its own limit
  request_ = std::make_shared<Request>();
  request_->peer = peer_, request_->loopback = loopback_;
  found_ = {};
  form_ = nullptr, piece_ = {}, answer_ = {}, out_ = {};
  has_body_ = false, body_read_ = true, keep_alive_ = false, closing_ = false;
  received_ = 0, header_bytes_ = 0;
  if (buffer_.capacity() > 4 * kRead) buffer_.shrink_to_fit();  // a body has come through it
  set_phase(Phase::idle);
  allow(std::exchange(first_, false) ? limits.header : limits.idle);
  read_header();
}

void Connection::read_header() {
  namespace http = beast::http;
  const auto bytes = [this] { return static_cast<const char*>(buffer_.data().data()); };
  if (phase_ == Phase::idle)  // RFC 9112, 2.2: empty lines before a request mean nothing
    while (buffer_.size() > 0 && (*bytes() == '\r' || *bytes() == '\n')) buffer_.consume(1);
  if (buffer_.size() > 0) {
    if (phase_ == Phase::idle) {
      set_phase(Phase::header);
      allow(core_.options.limits.header);
    }
    error_code error;
    const size_t parsed = parser_->put(buffer_.data(), error);
    buffer_.consume(parsed);
    header_bytes_ += parsed;
    const bool done = !error && parser_->is_header_done();
    // Beast's own limit is for the fields that have not been parsed yet, so it would let any number of them
    // in.
    const bool too_long = header_bytes_ + (done ? 0 : buffer_.size()) > core_.options.limits.header_bytes;
    if (done && !too_long) return on_header();
    if (too_long || (error && error != http::error::need_more)) {
      body_read_ = false;  // nobody knows where the next request would begin
      return refuse(too_long || error == http::error::header_limit ? 431 : 400);
    }
  }
  read_more(kRead, &Connection::read_header);
}

void Connection::read_more(size_t bytes, void (Connection::*then)()) {
  const size_t room = std::min(bytes, buffer_.max_size() - buffer_.size());
  socket_.async_read_some(buffer_.prepare(room),
                          [self = shared_from_this(), then, phase = phase_](error_code error, size_t count) {
                            if (self->phase_ != phase) return;  // refused meanwhile, or closed
                            if (error) return self->close();
                            self->buffer_.commit(count);
                            (self.get()->*then)();
                          });
}

// Copies the header into the request.
void Connection::take_header() {
  const auto& head = parser_->get();
  Request& request = *request_;
  request.method = view(head.method_string());
  for (const auto& field : head) request.headers.emplace_back(view(field.name_string()), view(field.value()));
  has_body_ = parser_->chunked() || parser_->content_length().value_or(0) > 0;
  body_read_ = !has_body_;
  keep_alive_ = parser_->keep_alive();
}

// Returns what is wrong with a header that Beast takes, or null. Two servers must never disagree about where
// a request ends, so only one way of saying it is taken.
const char* Connection::header_mistake() const {
  const auto& head = parser_->get();
  const auto codings = head.equal_range(beast::http::field::transfer_encoding);
  if (codings.first != codings.second && (head.version() < 11 || std::next(codings.first) != codings.second ||
                                          !equal_names(view(codings.first->value()), "chunked")))
    return "Transfer-Encoding: only chunked is accepted";
  const auto hosts = head.count(beast::http::field::host);
  if (hosts > 1 || (hosts == 0 && head.version() >= 11)) return "expected one Host header";
  if (head.target().empty() || head.target().front() != '/') return "expected a path";
  return nullptr;
}

void Connection::on_header() {
  take_header();
  Request& request = *request_;
  const std::string_view target = view(parser_->get().target());
  const size_t mark = std::min(target.find('?'), target.size());
  const std::string_view raw = target.substr(0, mark);
  const auto mistaken = [this](const char* what) {
    const Error error(ErrorCode::invalid_argument, what);
    body_read_ = false;
    refuse(400, &error);
  };
  if (const char* const what = header_mistake()) return mistaken(what);
  auto query = parse_query(target.substr(std::min(mark + 1, target.size())));
  if (!query) return mistaken("the query cannot be decoded, or has more than 256 values");
  request.query = std::move(*query);
  request.path = percent_decode(raw).value_or(std::string(raw));
  found_ = core_.router.find(request.method, raw);
  request.captures = found_.captures;
  if (refused_at_the_gate()) return;
  if (!found_.route) return refuse(found_.other_methods.empty() ? 404 : 405);
  if (found_.route->take_over) return hand_over();
  begin_body();
}

bool Connection::refused_at_the_gate() {
  if (!core_.options.gate) return false;
  try {
    auto reply = core_.options.gate(*request_, found_.route);
    if (!reply) return false;
    send(answer_of(std::move(*reply), *request_, core_.options));
  } catch (const std::exception& e) {
    refuse(500, &e);
  }
  return true;
}

void Connection::hand_over() {
  wait();
  timer_.cancel();
  set_phase(Phase::gone);
  found_.route->take_over->begin(
      {std::move(socket_), std::move(parser_), std::move(buffer_), std::move(*request_)});
}

void Connection::dispatch() {
  set_phase(Phase::handling);
  wait();
  if (auto known = answer_at_once(*found_.route, *request_, core_.options)) return send(std::move(*known));
  const bool taken = core_.lane(found_.route->lane).add([self = shared_from_this(), &core = core_]() mutable {
    auto answer = std::make_shared<Answer>(run_handler(*self->found_.route, *self->request_, core.options));
    self->request_->parts.clear();  // and with them the files that nobody keeps
    // The connection must end in the sockets' thread, so nothing of it stays here.
    core.door->post([self = std::move(self), answer] { self->send(std::move(*answer)); });
  });
  if (!taken) refuse(503);
}

void Connection::close() {
  if (phase_ == Phase::gone) return;
  set_phase(Phase::gone);
  timer_.cancel();
  drop_feed();
  drop_form();
  error_code ignored;
  socket_.close(ignored);
}

void Connection::wind_down() {
  if (phase_ == Phase::idle || phase_ == Phase::header || phase_ == Phase::body) return close();
  closing_ = true;
  if (phase_ == Phase::streaming && !pumping_) pump_events();
}

}  // namespace tachy::http
