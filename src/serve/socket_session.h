// A visit: the socket of the page that has the world, or that waits until it is open. It reads orders no
// faster than the rate allows, writes events and frames while the page takes them, and ends when for a long
// time nothing is pressed or nothing is taken. Private to src/serve.
#pragma once

#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/net_types.h"
#include "http/rate_limit.h"
#include "serve/hub.h"
#include "serve/messages.h"
#include "serve/outbox.h"

namespace tachy::serve {

// The words for whoever finds the world taken.
inline constexpr const char* kBusy =
    "Somebody else is walking through this world. One visitor at a time can walk through it.";

class SocketSession : public std::enable_shared_from_this<SocketSession> {
 public:
  using Request = boost::beast::http::request<boost::beast::http::vector_body<uint8_t>>;
  // `known` is false for a visitor whose first message must be a ticket.
  SocketSession(Hub& hub, Socket socket, bool known = true);
  ~SocketSession();
  void run(Request request);
  void begin();  // the world is open and is this visitor's
  bool gone() const { return ending_ != Ending::no; }
  bool is(std::string_view session) const { return !session.empty() && session == id_; }
  void picture(std::vector<uint8_t> file);  // the next run begins with this picture
  // Tells the reason, closes, and gives the world back. The code is the socket's (RFC 6455).
  void end(uint16_t code, const char* reason, const std::string& text);

 private:
  using error_code = boost::beast::error_code;
  using Clock = std::chrono::steady_clock;

  void on_accept(error_code error);
  void read();
  void read_later(Clock::duration wait);
  void on_read(error_code error);
  void take(std::string_view text);  // a message
  void enter();                      // asks for the world
  void obey(const ClientMessage& message);
  void pump();  // writes the next message, if none is being written
  void write(bool text);
  void tick();
  void count_time(Clock::time_point now);  // ends a visit in which something takes too long
  void close();
  void leave();  // call it once: the world is free again
  size_t window() const;

  Hub& hub_;
  const std::shared_ptr<int> connections_;  // the hub's
  const std::string id_;
  // The socket does not deflate: frames are compressed already.
  boost::beast::websocket::stream<TcpStream, false> socket_;
  Timer ticks_, pause_;
  boost::beast::flat_buffer in_;
  Request request_;
  std::shared_ptr<Outbox> outbox_;
  tachy::http::RateLimit rate_;
  std::string text_;                  // the text that is being written
  std::optional<QueuedFrame> frame_;  // the frame that is being written
  bool open_ = false, writing_ = false, held_ = false, told_rate_ = false;
  enum class Stage {
    unknown,
    waiting,
    visiting
  } stage_;  // without a ticket, until the world is open, since then
  enum class Ending { no, speaking, closing, gone } ending_ = Ending::no;
  std::string farewell_;
  boost::beast::websocket::close_reason reason_;
  uint64_t sent_ = 0;               // frames with smaller sequence numbers have been sent
  std::deque<uint64_t> under_way_;  // frames that were sent but are not known to have arrived
  Clock::time_point active_, taken_, ended_, spoke_;
};

}  // namespace tachy::serve
