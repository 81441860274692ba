// A server of one answer at a time, for tests of calls to other servers: it reads a request whole and sends what the
// function returns.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace tachy::web_api {

class SmallServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;

  explicit SmallServer(Answer answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_, 16);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~SmallServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  int port() const { return port_; }
  std::string url(const std::string& path = "/") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  int asked() const { return asked_; }

 private:
  void run() {
    for (int one; (one = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(one)) {
      std::string request;
      char bytes[4096];
      while (!whole(request)) {
        const ssize_t got = ::recv(one, bytes, sizeof bytes, 0);
        if (got <= 0) break;
        request.append(bytes, static_cast<size_t>(got));
      }
      ++asked_;
      const std::string text = answer_(request);
      for (size_t at = 0; at < text.size();) {
        const ssize_t sent = ::send(one, text.data() + at, text.size() - at, MSG_NOSIGNAL);
        if (sent <= 0) break;
        at += static_cast<size_t>(sent);
      }
    }
  }

  static bool whole(const std::string& request) {
    const size_t end = request.find("\r\n\r\n");
    if (end == request.npos) return false;
    const size_t length = request.find("Content-Length: ");
    if (length == request.npos || length > end) return true;
    return request.size() >= end + 4 + std::stoul(request.substr(length + 16));
  }

  Answer answer_;
  int listener_ = -1, port_ = 0;
  std::atomic<int> asked_{0};
  std::thread thread_;
};

}  // namespace tachy::web_api
