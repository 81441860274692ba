// Streams of bytes between processes (TCP), without waiting: every call returns at once, and wait_for() waits
// for several sockets together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/os/handle.h"
#include "base/os/network.h"

namespace tachy::os {

struct Endpoint {
  IpAddress address;
  uint16_t port = 0;
};

class Socket {
 public:
  Socket() = default;
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : handle_(std::exchange(other.handle_, kNoHandle)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  // Waits for connections at the endpoint; port 0 takes any free one.
  static Socket listening(const Endpoint& at, std::error_code& error);
  // Begins to connect. The socket can be written once the connection is there; problem() then tells whether
  // it is.
  static Socket connecting(const Endpoint& to, std::error_code& error);
  // Returns a connection that has come, or an empty socket if there is none.
  Socket accept() const;

  explicit operator bool() const { return handle_ != kNoHandle; }
  Handle handle() const { return handle_; }
  std::error_code problem() const;
  std::optional<Endpoint> local() const;

  // Both return how many bytes were taken, 0 if it would have to wait. `error` is set if the connection is
  // gone; after an orderly end, receive() sets it to std::errc::not_connected.
  size_t send(std::span<const uint8_t> bytes, std::error_code& error) const;
  size_t receive(std::span<uint8_t> bytes, std::error_code& error) const;

  // Sends small pieces at once, and finds out within five seconds that the other machine is gone, even if
  // nothing is sent.
  void watch_closely() const;
  void end_sending() const;  // the other side then reads an orderly end
  void close();

 private:
  explicit Socket(Handle handle) : handle_(handle) {}
  Handle handle_ = kNoHandle;
};

// A socket in wait_for() and what it waits for; the other members tell what has come. `gone`: the other side
// sends no more, or the connection is broken, even while bytes are left to read.
struct Awaited {
  Handle socket = kNoHandle;
  bool to_read = false, to_write = false;
  bool readable = false, writable = false, gone = false;
};
void wait_for(std::span<Awaited> sockets, int milliseconds);

// The addresses of a machine's name, or of a text that is an address; none if nobody knows it.
std::vector<IpAddress> addresses_of(const std::string& host);
// The first address of a network interface of this machine ("eth0"), IPv4 before IPv6; nothing if there is
// none.
std::optional<IpAddress> address_of_interface(const std::string& name);
std::vector<std::string> interface_names();
bool is_loopback(const IpAddress& address);

}  // namespace tachy::os
