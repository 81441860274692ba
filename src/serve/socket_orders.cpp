// The orders of a visitor: reads them no faster than the rate allows, and does what they say.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "serve/socket_session.h"

namespace tachy::serve {

namespace websocket = boost::beast::websocket;

void SocketSession::read() {
  if (ending_ != Ending::no) return;
  socket_.async_read(in_, [self = shared_from_this()](error_code error, size_t) { self->on_read(error); });
}

void SocketSession::read_later(Clock::duration wait) {
  if (!std::exchange(told_rate_, true))
    outbox_->event(json_line(
        nlohmann::json{{"type", "notice"}, {"text", "too many messages per second; some are read later"}}));
  pause_.expires_after(wait);
  pause_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->read();
  });
}

void SocketSession::on_read(error_code error) {
  if (error) {  // the socket was closed or lost, or a message is too long (Beast has answered 1009)
    leave();
    return;
  }
  if (ending_ != Ending::no) return;
  if (!socket_.got_text())
    return end(websocket::close_code::unknown_data, "protocol", "only text messages are accepted");
  try {
    const auto bytes = in_.cdata();
    take({static_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const std::exception& e) {
    return end(websocket::close_code::policy_error, "protocol", e.what());
  }
  in_.consume(in_.size());
  const Clock::duration wait = rate_.take(Clock::now());
  if (wait > Clock::duration::zero())
    read_later(wait);
  else
    read();
}

void SocketSession::take(std::string_view text) {
  if (stage_ == Stage::visiting) return obey(parse_message(text, hub_.world->info()));
  if (stage_ == Stage::waiting) return;  // there is nothing to steer yet
  if (hub_.ticket(parse_ticket(text))) return enter();
  end(websocket::close_code::policy_error, "ticket", "the ticket has expired, or is none of this server");
}

void SocketSession::obey(const ClientMessage& message) {
  if (!std::holds_alternative<SeenMessage>(message)) active_ = Clock::now();
  if (const auto* input = std::get_if<InputMessage>(&message)) {
    held_ = input->held();
    hub_.player->act(input->action, input->stamp);
  } else if (const auto* start = std::get_if<StartMessage>(&message)) {
    hub_.player->start({.seed = start->seed, .prompt = start->prompt, .picture = {}});
  } else if (std::holds_alternative<ResetMessage>(message)) {
    hub_.player->start({.seed = {}, .prompt = {}, .picture = {}, .reset = true});
  } else if (std::holds_alternative<StopMessage>(message)) {
    hub_.player->stop();
  } else if (const auto* record = std::get_if<RecordMessage>(&message)) {
    hub_.player->record(record->on);
  } else if (const auto* seen = std::get_if<SeenMessage>(&message)) {
    require(seen->sequence < sent_, "'sequence': {} was not sent yet", seen->sequence);
    if (under_way_.empty() || under_way_.front() > seen->sequence) return;
    while (!under_way_.empty() && under_way_.front() <= seen->sequence) under_way_.pop_front();
    taken_ = Clock::now();
    pump();
  }
}

void SocketSession::picture(std::vector<uint8_t> file) {
  active_ = Clock::now();
  hub_.player->start({.seed = {}, .prompt = {}, .picture = std::move(file)});
}

}  // namespace tachy::serve
