// A visitor's programs: a request over its own connection, and a socket. Nothing waits longer than 20 s.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "drawn_world.h"
#include "http/net_types.h"
#include "serve/page_server.h"

namespace tachy::test {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using Headers = std::map<std::string, std::string>;

struct Reply {
  unsigned status = 0;  // 0: the connection was closed without a status
  std::string body, head;
};

inline tcp::endpoint here(int port) {
  return {asio::ip::address_v4::loopback(), static_cast<uint16_t>(port)};
}

// Sends bytes unchanged, and returns everything that comes back.
inline std::string send_raw(int port, const std::string& bytes) {
  asio::io_context io;
  http::TcpStream stream(io);
  std::string out;
  char piece[4096];
  stream.expires_after(std::chrono::seconds(20));
  beast::error_code failed;
  stream.async_connect(here(port), [&](beast::error_code error) { failed = error; });
  io.run(), io.restart();
  if (failed) return out;
  asio::async_write(stream, asio::buffer(bytes), [](beast::error_code, size_t) {});
  std::function<void()> read = [&] {
    stream.async_read_some(asio::buffer(piece), [&](beast::error_code error, size_t count) {
      out.append(piece, count);
      if (!error) read();
    });
  };
  read();
  io.run();
  return out;
}

inline Reply request(int port, const std::string& method, const std::string& target, Headers headers = {},
                     const std::string& body = "") {
  headers.emplace("Host", fmt::format("127.0.0.1:{}", port));
  if (method == "POST") {
    headers.emplace("Origin", fmt::format("http://127.0.0.1:{}", port));
    headers.emplace("Content-Length", std::to_string(body.size()));
  }
  std::string text = method + " " + target + " HTTP/1.1\r\n";
  for (const auto& [name, value] : headers)
    if (!value.empty()) text += name + ": " + value + "\r\n";
  const std::string raw = send_raw(port, text + "\r\n" + body);
  const size_t end = raw.find("\r\n\r\n");
  if (end == raw.npos || raw.size() < 12) return {};
  return {static_cast<unsigned>(std::stoi(raw.substr(9, 3))), raw.substr(end + 4), raw.substr(0, end)};
}

struct Message {
  bool text = false;
  std::string bytes;
  nlohmann::json json() const { return text ? nlohmann::json::parse(bytes) : nlohmann::json(); }
};

class Visitor {
 public:
  // Returns the status of the handshake: 101 if the socket is open.
  unsigned open(int port, const std::string& query = "", const std::string& origin = "",
                const std::string& host = "", const Headers& headers = {}) {
    const std::string name = host.empty() ? fmt::format("127.0.0.1:{}", port) : host;
    socket_.emplace(io_);
    auto& stream = beast::get_lowest_layer(*socket_);
    stream.expires_after(std::chrono::seconds(20));
    beast::error_code failed;
    stream.async_connect(here(port), [&](beast::error_code error) { failed = error; });
    run();
    if (failed) return 0;
    const std::string from = origin.empty() ? "http://" + name : origin;
    socket_->set_option(beast::websocket::stream_base::decorator([&](beast::websocket::request_type& r) {
      r.set(beast::http::field::origin, from);
      for (const auto& [field, value] : headers) r.set(field, value);
    }));
    beast::websocket::response_type response;
    socket_->async_handshake(response, name, path + "/socket" + query,
                             [&](beast::error_code error) { failed = error; });
    run();
    return response.result_int();
  }
  bool send(const std::string& text) { return write(text, true); }
  bool send_bytes(const std::string& bytes) { return write(bytes, false); }
  // Returns nothing if the socket was closed; reason() says why.
  std::optional<Message> receive() {
    beast::flat_buffer in;
    beast::error_code failed;
    beast::get_lowest_layer(*socket_).expires_after(std::chrono::seconds(20));
    socket_->async_read(in, [&](beast::error_code error, size_t) { failed = error; });
    run();
    if (failed == beast::error::timeout) ADD_FAILURE() << "nothing came";
    if (failed) return std::nullopt;
    return Message{socket_->got_text(), beast::buffers_to_string(in.data())};
  }
  // Returns the next event of that type, acknowledging frames on the way; nothing if the socket was closed.
  std::optional<nlohmann::json> event(const std::string& type, const std::string& state = "") {
    while (auto message = receive()) {
      if (!message->text) {
        seen(*message);
        continue;
      }
      auto json = message->json();
      if (json["type"] == type && (state.empty() || json["state"] == state)) return json;
    }
    return std::nullopt;
  }
  std::optional<Message> frame() {
    while (auto message = receive())
      if (!message->text) {
        seen(*message);
        return message;
      }
    return std::nullopt;
  }
  static uint64_t number(const Message& frame, size_t at, size_t size = 8) {
    uint64_t out = 0;
    for (size_t i = 0; i < size; ++i)
      out |= uint64_t{static_cast<uint8_t>(frame.bytes.at(at + i))} << (8 * i);
    return out;
  }
  unsigned reason() const { return socket_->reason().code; }
  void cut() { beast::get_lowest_layer(*socket_).close(); }
  void close() {
    socket_->async_close(beast::websocket::close_code::normal, [](beast::error_code) {});
    run();
  }

  std::string path;  // of the page, without its last slash

 private:
  void run() { io_.run(), io_.restart(); }
  void seen(const Message& frame) {
    send(fmt::format(R"({{"type":"seen","sequence":{}}})", number(frame, 8)));
  }
  bool write(const std::string& bytes, bool text) {
    beast::error_code failed;
    socket_->text(text);
    beast::get_lowest_layer(*socket_).expires_after(std::chrono::seconds(20));
    socket_->async_write(asio::buffer(bytes), [&](beast::error_code error, size_t) { failed = error; });
    run();
    return !failed;
  }

  asio::io_context io_;
  std::optional<beast::websocket::stream<http::TcpStream, false>> socket_;
};

// A server of the drawn world, in a thread of its own.
class ServerTest : public testing::Test {
 protected:
  void TearDown() override { close(); }
  void open(double fps = 120, double block_seconds = 0) {
    world_ = std::make_unique<DrawnWorld>(160, 96, fps, block_seconds);
    if (describe_) describe_(world_->about());
    options_.port = 0;
    if (!options_.play.start.image) options_.play.start = drawn_start();
    server_ = std::make_unique<serve::PageServer>(*world_, options_);
    port_ = server_->port();
    thread_ = std::thread([this] { server_->run(); });
  }
  void close() {
    if (server_) server_->stop();
    if (thread_.joinable()) thread_.join();
    server_.reset();
  }
  Reply get(const std::string& target, Headers headers = {}) {
    return request(port_, "GET", target, std::move(headers));
  }
  // Begins a visit and waits until its world runs.
  nlohmann::json start(Visitor& visitor) {
    EXPECT_EQ(visitor.open(port_), 101u);
    const auto hello = visitor.event("hello");
    visitor.send(R"({"type":"start"})");
    EXPECT_TRUE(visitor.event("state", "running"));
    return hello.value_or(nlohmann::json());
  }
  void wait_until_free() {
    for (int i = 0; i < 1000 && get("/state").body.find("\"busy\":false") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  serve::PageOptions options_;
  std::function<void(WorldInfo&)> describe_;  // changes the drawn world into another one
  std::unique_ptr<DrawnWorld> world_;
  std::unique_ptr<serve::PageServer> server_;
  std::thread thread_;
  int port_ = 0;
};

}  // namespace tachy::test
