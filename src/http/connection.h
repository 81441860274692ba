// One connection: it reads a request within limits, has it answered in a lane, writes the reply, and goes on
// with the next request or closes. All of it happens in the sockets' thread, but for handlers and disks.
// Private to src/http.
//
//   idle -> header -> body -> handling -> writing or streaming -> idle, or lingering -> gone
//
// Requests that come before the reply to the one before them wait in the buffer.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "http/answer.h"
#include "http/core.h"
#include "http/form.h"
#include "http/net_types.h"

namespace tachy::http {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Core& core, Socket socket);
  ~Connection();
  void run();
  void close();
  void wind_down();  // the server ends: closes now, or after the reply that is being made or written

 private:
  using Clock = std::chrono::steady_clock;
  using error_code = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;
  enum class Phase { idle, header, body, handling, writing, streaming, lingering, gone };

  // connection.cpp: headers
  void begin_request();
  void read_header();
  void read_more(size_t bytes, void (Connection::*then)());
  void on_header();
  void take_header();
  const char* header_mistake() const;
  bool refused_at_the_gate();
  void hand_over();
  void set_phase(Phase phase);
  void allow(Clock::duration time);  // until something has to come or to be taken
  void wait();                       // no such limit, while it is our turn
  void arm();
  void on_late();
  void dispatch();

  // connection_body.cpp: bodies
  void begin_body();
  void read_body();
  bool parse_body();
  void refuse_length();
  void spool_piece();
  void on_spooled(std::exception_ptr failed);
  void refuse_body(std::exception_ptr failed);
  void drop_form();
  void finish_body();

  // connection_reply.cpp: replies
  void refuse(int status, const std::exception* error = nullptr);
  void send(Answer answer);
  void write(std::string bytes, void (Connection::*then)());
  void write_text();
  void read_file();
  void write_piece(std::string piece);
  void begin_events();
  void on_news();
  void pump_events();
  void end_events();
  void watch_for_the_end();
  void drop_feed();
  void finish_reply();
  void linger();
  void drain();

  Core& core_;
  Socket socket_;
  boost::beast::flat_buffer buffer_;
  std::unique_ptr<Parser> parser_;
  std::shared_ptr<Request> request_;
  Router::Found found_;
  std::string peer_;
  bool loopback_ = false;

  Phase phase_ = Phase::gone;
  std::list<Connection*>::iterator idle_at_;
  Timer timer_;
  Clock::time_point deadline_ = Clock::time_point::max(), armed_ = Clock::time_point::max();

  bool first_ = true;                       // no request has come yet
  bool has_body_ = false;                   // the request has one
  bool body_read_ = true;                   // nothing of it is left unread
  bool keep_alive_ = false;                 // for this request, as far as the other side is concerned
  bool closing_ = false;                    // after the reply under way
  size_t header_bytes_ = 0;                 // of the request's header so far
  uint64_t received_ = 0, most_bytes_ = 0;  // of the body
  Clock::time_point body_began_;
  std::string piece_;
  std::shared_ptr<Form> form_;

  Answer answer_;
  size_t sent_ = 0;  // of the answer's text
  std::string out_;  // what is being written
  bool chunked_ = false;
  bool pumping_ = false;     // events are being written
  Clock::time_point spoke_;  // when something was last written to an event stream
  char rest_[2048];
};

}  // namespace tachy::http
