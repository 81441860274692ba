// A server of two drawn worlds, "one" and "two", under /world/…, with what happens to them and to the device.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client.h"
#include "http/server.h"
#include "serve/world_door.h"

namespace tachy::test {

class DoorTest : public testing::Test {
 protected:
  void SetUp() override {
    spool_ =
        std::filesystem::path(testing::TempDir()) /
        fmt::format("door-{}-{}", ::getpid(), testing::UnitTest::GetInstance()->current_test_info()->name());
    door_options_.names = {"one", "two"};
    door_options_.linger = std::chrono::milliseconds(100);
    door_options_.open = [this](const std::string& name) {
      happens("opening " + name);
      if (on_open_) on_open_(name);
      return serve::OpenedWorld{std::make_unique<Told>(*this, name), drawn_start()};
    };
    door_options_.make_room = [this] {
      happens("room");
      return std::shared_ptr<void>(static_cast<void*>(this), [this](void*) { happens("no room"); });
    };
  }
  void TearDown() override { close(); }

  void open() {
    door_ = std::make_unique<serve::WorldDoor>(door_options_);
    http::Router router;
    door_->add_routes(router);
    http::ServerOptions options;
    options.port = 0, options.spool = spool_;
    options.gate = [this](http::Request& request, const http::Route* route) -> std::optional<http::Reply> {
      if (request.header("Authorization") == "Bearer good") request.caller.key = "somebody";
      if (!door_options_.ticket || !request.caller.key.empty() || (route && route->open)) return std::nullopt;
      return http::text_reply(401, "a key is needed");
    };
    options.on_error = [](int status, const std::exception*, const http::Request&) {
      return http::text_reply(status, "an error");
    };
    server_ = std::make_unique<http::Server>(std::move(router), options);
    port_ = server_->port();
    thread_ = std::thread([this] { server_->run(nullptr); });
  }
  void close() {
    if (server_) server_->stop();
    if (thread_.joinable()) thread_.join();
    if (door_) door_->close();
    server_.reset();
    door_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(spool_, ignored);
  }

  // The server itself would keep the connection open.
  Reply ask(const std::string& method, const std::string& target, Headers headers = {},
            const std::string& body = "") {
    headers.emplace("Connection", "close");
    return request(port_, method, target, std::move(headers), body);
  }
  Reply get(const std::string& target, Headers headers = {}) {
    return ask("GET", target, std::move(headers));
  }
  // Begins a visit and waits until its world runs.
  void start(Visitor& visitor, const std::string& name) {
    visitor.path = "/world/" + name;
    ASSERT_EQ(visitor.open(port_), 101u);
    ASSERT_TRUE(visitor.event("hello"));
    visitor.send(R"({"type":"start"})");
    ASSERT_TRUE(visitor.event("state", "running"));
    ASSERT_TRUE(visitor.frame());
  }

  void happens(const std::string& what) {
    const std::lock_guard lock(mutex_);
    seen_.push_back(what);
  }
  std::vector<std::string> seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  // Waits until that has happened that many times.
  bool wait_for(const std::string& what, std::ptrdiff_t times = 1) {
    for (int i = 0; i < 2000; ++i) {
      const std::vector<std::string> all = seen();
      if (std::count(all.begin(), all.end(), what) >= times) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  serve::WorldDoorOptions door_options_;
  std::function<void(const std::string&)> on_open_;
  std::unique_ptr<serve::WorldDoor> door_;
  std::unique_ptr<http::Server> server_;
  int port_ = 0;

 private:
  struct Told : DrawnWorld {
    Told(DoorTest& t, std::string n) : DrawnWorld(160, 96, 120), test(t), name(std::move(n)) {}
    ~Told() override { test.happens("closed " + name); }
    DoorTest& test;
    std::string name;
  };

  std::filesystem::path spool_;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<std::string> seen_;
};

}  // namespace tachy::test
