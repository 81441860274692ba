// A server in a thread of its own, with routes that show what they were given.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "http/server.h"
#include "raw_client.h"

namespace tachy::test {

// A gate that handlers wait at.
class Turnstile {
 public:
  ~Turnstile() { open(); }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    news_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    news_.notify_all();
    news_.wait(lock, [this] { return open_; });
  }
  bool wait_for(int waiting) {
    std::unique_lock lock(mutex_);
    return news_.wait_for(lock, std::chrono::seconds(20), [&] { return waiting_ >= waiting; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  bool open_ = false;
  int waiting_ = 0;
};

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    folder_ = std::filesystem::path(testing::TempDir()) /
              fmt::format("http_{}_{}", testing::UnitTest::GetInstance()->current_test_info()->name(),
                          std::chrono::steady_clock::now().time_since_epoch().count());
    std::filesystem::create_directories(folder_);
    options_.port = 0;
    options_.spool = folder_ / "spool";
    options_.answered = [this](std::string_view pattern, std::string_view method, int status) {
      const std::lock_guard lock(mutex_);
      answered_.push_back(fmt::format("{} {} {}", method, pattern, status));
    };
    add("GET", "/hello", [](http::Request&) { return http::text_reply(200, "hello"); });
    add("POST", "/echo", [](http::Request& r) { return http::text_reply(200, r.body); });
    add("POST", "/form", [](http::Request& r) {
      std::string out;
      for (const http::Part& part : r.parts)
        out += part.file ? fmt::format("{}: {} {} {} {}\n", part.name, part.file->filename(),
                                       part.file->type(), part.file->bytes, part.file->sha256)
                         : fmt::format("{}={}\n", part.name, part.text);
      return http::text_reply(200, out);
    });
    add("GET", "/wait", [this](http::Request&) {
      turnstile_.pass();
      return http::text_reply(200, "waited");
    });
  }
  ~HttpServerTest() override {
    stop();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void add(std::string method, std::string pattern, http::Handler handler,
           http::Lane lane = http::Lane::quick) {
    router_.add({.method = std::move(method),
                 .pattern = std::move(pattern),
                 .handler = std::move(handler),
                 .lane = lane});
  }
  void start() {
    server_ = std::make_unique<http::Server>(router_, options_);
    port_ = server_->port();
    thread_ = std::thread([this] { server_->run(&cancel_); });
  }
  void stop() {
    turnstile_.open();
    if (server_) server_->stop();
    if (thread_.joinable()) thread_.join();
    server_.reset();
  }
  RawReply ask(std::string_view request) { return RawClient(port_).ask(request); }
  RawReply get(std::string_view target, std::string_view headers = "") {
    return ask(head("GET", target, headers));
  }
  static std::string head(std::string_view method, std::string_view target, std::string_view headers = "") {
    return fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", method, target, headers);
  }
  static std::string post(std::string_view target, std::string_view type, std::string_view body) {
    return head("POST", target,
                fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", type, body.size())) +
           std::string(body);
  }
  std::filesystem::path write_file(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  size_t spooled() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(options_.spool)) count += entry.exists();
    return count;
  }
  std::vector<std::string> answered() {
    const std::lock_guard lock(mutex_);
    return answered_;
  }

  std::filesystem::path folder_;
  http::ServerOptions options_;
  http::Router router_;
  Turnstile turnstile_;
  std::atomic<bool> cancel_{false};
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
  int port_ = 0;

 private:
  std::mutex mutex_;
  std::vector<std::string> answered_;
};

}  // namespace tachy::test
