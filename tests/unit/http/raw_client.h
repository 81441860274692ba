// A client that sends bytes as they are given and takes replies apart. Nothing waits longer than 20 s.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tachy::test {

struct RawReply {
  int status = 0;  // 0: the connection ended without a whole reply
  std::string head, body;

  std::string header(std::string_view name) const {
    const std::string key = "\r\n" + std::string(name) + ": ";
    const size_t at = head.find(key);
    if (at == head.npos) return "";
    const size_t from = at + key.size();
    return head.substr(from, head.find("\r\n", from) - from);
  }
};

class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        connected_(other.connected_),
        held_(std::move(other.held_)) {}
  RawClient& operator=(RawClient&& other) noexcept {
    close();
    socket_ = std::exchange(other.socket_, -1);
    connected_ = other.connected_;
    held_ = std::move(other.held_);
    return *this;
  }
  ~RawClient() { close(); }

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // Ends with a reset, as a process that is killed with bytes unread does.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  // Returns false where the other side has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // Returns false at the end, or if nothing comes for `seconds`.
  bool receive(double seconds = 20) {
    pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, static_cast<int>(seconds * 1000)) <= 0) return false;
    char piece[65536];
    const ssize_t n = ::recv(socket_, piece, sizeof piece, 0);
    if (n > 0) held_.append(piece, static_cast<size_t>(n));
    return n > 0;
  }
  // Reads until the text has come, and returns everything up to its end; "" if it does not come.
  std::string read_until(std::string_view text, double seconds = 20) {
    size_t at;
    while ((at = held_.find(text)) == held_.npos)
      if (!receive(seconds)) return "";
    std::string out = held_.substr(0, at + text.size());
    held_.erase(0, out.size());
    return out;
  }
  std::string read_bytes(size_t count) {
    while (held_.size() < count)
      if (!receive()) break;
    std::string out = held_.substr(0, count);
    held_.erase(0, out.size());
    return out;
  }
  std::string read_all(double seconds = 20) {
    while (receive(seconds)) {
    }
    return std::exchange(held_, {});
  }
  // Says whether the other side closes within that time, whatever it sends until then.
  bool ends(double seconds = 20) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < until) {
      pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, 20) == 0) continue;
      char piece[4096];
      if (::recv(socket_, piece, sizeof piece, 0) <= 0) return true;
    }
    return false;
  }
  RawReply reply(bool head_only = false) {
    RawReply out;
    out.head = read_until("\r\n\r\n");
    if (out.head.size() < 12) return out;
    const int status = std::atoi(out.head.c_str() + 9);
    if (!head_only && out.header("Transfer-Encoding") == "chunked") {
      for (;;) {
        const std::string line = read_until("\r\n");
        if (line.empty()) return out;
        const size_t size = std::strtoul(line.c_str(), nullptr, 16);
        const std::string chunk = read_bytes(size + 2);
        if (chunk.size() < size + 2) return out;
        if (size == 0) break;
        out.body += chunk.substr(0, size);
      }
    } else if (!head_only && !out.header("Content-Length").empty()) {
      const size_t size = std::strtoul(out.header("Content-Length").c_str(), nullptr, 10);
      out.body = read_bytes(size);
      if (out.body.size() < size) return out;
    }
    out.status = status;
    return out;
  }
  RawReply ask(std::string_view request) {
    send(request);
    return reply();
  }

 private:
  int socket_ = -1;
  bool connected_ = false;
  std::string held_;
};

}  // namespace tachy::test
