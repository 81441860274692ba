#include "serve/socket_session.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"

namespace tachy::serve {
namespace {

namespace beast = boost::beast;
namespace websocket = beast::websocket;
using boost::asio::ip::tcp;
using nlohmann::json;

constexpr int kSendBuffer = 256 << 10;  // the system's buffer: bytes in it cannot be taken back

}  // namespace

SocketSession::SocketSession(Hub& hub, Socket socket, bool known)
    : hub_(hub),
      connections_(hub.connections),
      id_(random_token()),
      socket_(std::move(socket)),
      ticks_(hub.executor),
      pause_(hub.executor),
      rate_(hub.limits().messages_per_second, hub.limits().messages_at_once, Clock::now()),
      stage_(known ? Stage::waiting : Stage::unknown),
      active_(Clock::now()),
      taken_(active_),
      spoke_(active_) {
  ++*connections_;
}

SocketSession::~SocketSession() { --*connections_; }

void SocketSession::run(Request request) {
  request_ = std::move(request);
  error_code ignored;
  Socket& socket = beast::get_lowest_layer(socket_).socket();
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(boost::asio::socket_base::send_buffer_size(kSendBuffer), ignored);
  websocket::stream_base::timeout timeout{};
  timeout.handshake_timeout = hub_.limits().request;
  timeout.idle_timeout = std::chrono::seconds(30);  // a page that vanished does not answer pings
  timeout.keep_alive_pings = true;
  socket_.set_option(timeout);
  socket_.read_message_max(hub_.limits().message_bytes);
  socket_.async_accept(request_, [self = shared_from_this()](error_code error) { self->on_accept(error); });
}

void SocketSession::on_accept(error_code error) {
  if (error) return leave();
  open_ = true;
  std::weak_ptr<SocketSession> weak = weak_from_this();
  outbox_ = std::make_shared<Outbox>(hub_.limits().events, [weak, executor = hub_.executor] {
    boost::asio::post(executor, [weak] {
      if (const auto self = weak.lock()) self->pump();
    });
  });
  read();
  tick();
  if (stage_ == Stage::waiting) enter();
}

void SocketSession::enter() {
  stage_ = Stage::waiting;
  if (!hub_.enter) return begin();
  outbox_->event(json_line(json{{"type", "state"}, {"state", "opening"}}));
  hub_.enter(shared_from_this());
}

void SocketSession::begin() {
  stage_ = Stage::visiting;
  active_ = taken_ = Clock::now();
  const PlayerOptions& play = hub_.player->options();
  json hello = hello_event(hub_.world->info(), play.fps, hub_.world->device(), id_,
                           play.start.image != nullptr, play.start);
  hello["alive"] = hub_.limits().alive.count();
  outbox_->event(json_line(hello));
  hub_.player->attach(outbox_);
}

// Returns the number of frames that may be on their way: two blocks, because the page shows one while the
// next one arrives.
size_t SocketSession::window() const {
  const WorldInfo& info = hub_.world->info();
  return 2 * static_cast<size_t>(std::max<int64_t>({info.block_frames, info.first_block_frames, 1}));
}

void SocketSession::pump() {
  if (!open_ || writing_ || ending_ == Ending::closing || ending_ == Ending::gone) return;
  if (auto event = outbox_->pop_event()) {
    text_ = std::move(*event);
    return write(true);
  }
  if (ending_ == Ending::speaking) {
    if (farewell_.empty()) return close();
    text_ = std::exchange(farewell_, {});
    return write(true);
  }
  if (outbox_->overfull())
    return end(websocket::close_code::policy_error, "stalled",
               "the page does not read what the server sends");
  if (stage_ != Stage::visiting || under_way_.size() >= window()) return;
  frame_ = outbox_->frames.pop();
  if (!frame_) return;
  sent_ = frame_->sequence + 1;
  under_way_.push_back(frame_->sequence);
  write(false);
}

void SocketSession::write(bool text) {
  writing_ = true;
  socket_.text(text);
  const auto bytes =
      text ? boost::asio::buffer(text_.data(), text_.size())
           : boost::asio::buffer(static_cast<const void*>(frame_->bytes.data()), frame_->bytes.size());
  socket_.async_write(bytes, [self = shared_from_this()](error_code error, size_t) {
    self->writing_ = false;
    if (error) return self->leave();
    self->pump();
  });
}

void SocketSession::count_time(Clock::time_point now) {
  const PageLimits& limits = hub_.limits();
  if (stage_ == Stage::unknown && now - active_ > limits.request)
    return end(websocket::close_code::policy_error, "ticket", "no ticket came");
  if (stage_ != Stage::visiting) return;
  const WorldInfo& info = hub_.world->info();
  // Time counts only while there is something to take and something to steer: watching is enough for a
  // visitor who can only watch.
  if (outbox_->frames.empty() && !writing_) taken_ = now;
  const bool steers = info.mouse || !info.keys.empty();
  if (held_ || hub_.player->beginning() || (!steers && hub_.player->running())) active_ = now;
  if (now - taken_ > limits.stalled)
    end(websocket::close_code::policy_error, "stalled",
        "the page does not read the frames that the server sends");
  else if (now - active_ > limits.idle)
    end(websocket::close_code::normal, "idle",
        fmt::format("nothing was pressed for {:.0f} seconds",
                    std::chrono::duration<double>(limits.idle).count()));
}

void SocketSession::tick() {
  const PageLimits& limits = hub_.limits();
  const auto now = Clock::now();
  if (ending_ == Ending::gone) return;
  if (ending_ == Ending::no)
    count_time(now);
  else if (now - ended_ > limits.farewell)
    return leave();
  // If the network is lost, no socket is closed: the page notices it by this silence.
  if (ending_ == Ending::no && now - spoke_ >= limits.alive)
    spoke_ = now, outbox_->news(json_line(json{{"type", "alive"}}));
  const auto pause =
      std::clamp<Clock::duration>(std::min({limits.idle, limits.stalled, limits.alive}) / 10,
                                  std::chrono::milliseconds(10), std::chrono::milliseconds(500));
  ticks_.expires_after(pause);
  ticks_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->tick();
  });
}

void SocketSession::end(uint16_t code, const char* reason, const std::string& text) {
  if (ending_ != Ending::no) return;
  ending_ = Ending::speaking;
  ended_ = Clock::now();
  farewell_ = json_line(json{{"type", "closing"}, {"reason", reason}, {"text", text}});
  reason_ = {static_cast<websocket::close_code>(code), reason};
  if (hub_.visitor.get() == this) hub_.player->detach();
  pump();
}

void SocketSession::close() {
  ending_ = Ending::closing;
  socket_.async_close(reason_, [self = shared_from_this()](error_code) { self->leave(); });
}

void SocketSession::leave() {
  if (ending_ == Ending::gone) return;
  ending_ = Ending::gone;
  ticks_.cancel();
  pause_.cancel();
  beast::get_lowest_layer(socket_).close();
  if (hub_.visitor.get() == this) {
    hub_.player->detach();
    hub_.visitor = nullptr;
    if (hub_.left) hub_.left();
  }
}

}  // namespace tachy::serve
