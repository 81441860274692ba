#include "postgres/listener.h"

#include <chrono>

#include "base/log.h"
#include "base/os/network.h"
#include "postgres/connection.h"

namespace tachy::postgres {
namespace {

constexpr std::chrono::milliseconds kLook{200}, kAfterFailure{500};

}  // namespace

Listener::Listener(std::string address, std::string schema, std::string channel,
                   std::function<void(const std::string& message)> heard)
    : address_(std::move(address)),
      schema_(std::move(schema)),
      channel_(std::move(channel)),
      heard_(std::move(heard)),
      thread_([this] { work(); }) {}

Listener::~Listener() {
  ending_ = true;
  thread_.join();
}

void Listener::work() {
  while (!ending_) {
    try {
      hear();
    } catch (const std::exception&) {
      // Whoever uses the database says that it is away.
    }
    hears_ = false;
    if (!ending_) std::this_thread::sleep_for(kAfterFailure);
  }
}

void Listener::hear() {
  Connection connection(address_, schema_);
  connection.run("LISTEN " + channel_);  // a name of ours
  heard_("");
  hears_ = true;
  while (!ending_) {
    if (!os::wait_readable(connection.socket(), static_cast<int>(kLook.count()))) continue;
    if (!connection.read_input()) return;
    while (const auto message = connection.next_message()) heard_(*message);
  }
}

}  // namespace tachy::postgres
