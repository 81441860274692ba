// Event streams over sockets: news as they come, comments in silence, listeners that read slowly or go away.
#include <deque>

#include "http/take_over.h"
#include "server_case.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Feed : public http::EventFeed {
 public:
  std::optional<std::string> next() override {
    const std::lock_guard lock(mutex_);
    if (texts_.empty()) return std::nullopt;
    ++taken_;
    std::string text = std::move(texts_.front());
    texts_.pop_front();
    return text;
  }
  bool ended() const override {
    const std::lock_guard lock(mutex_);
    return ended_ && texts_.empty();
  }
  void on_news(std::function<void()> wake) override {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
  }
  void add(const std::string& text, bool last = false) {
    std::function<void()> wake;
    {
      const std::lock_guard lock(mutex_);
      if (!text.empty()) texts_.push_back(text);
      ended_ = last;
      wake = wake_;
    }
    if (wake) wake();
  }
  int taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<std::string> texts_;
  std::function<void()> wake_;
  bool ended_ = false;
  int taken_ = 0;
};

class HttpEvents : public HttpServerTest {
 protected:
  HttpEvents() {
    add("GET", "/events", [this](http::Request&) { return http::Reply{.body = feed_}; });
  }
  // Says whether the server has let the feed go: only the test holds it then.
  bool let_go() {
    for (int i = 0; i < 2000 && feed_.use_count() > 1; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return feed_.use_count() == 1;
  }
  std::shared_ptr<Feed> feed_ = std::make_shared<Feed>();
};

TEST_F(HttpEvents, NewsAreSentAsTheyCome) {
  start();
  feed_->add("id: 1\ndata: early\n\n");
  RawClient client(port_);
  client.send(head("GET", "/events"));
  const std::string reply = client.read_until("\r\n\r\n");
  EXPECT_THAT(reply, HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(reply, HasSubstr("Cache-Control: no-store\r\n"));
  EXPECT_THAT(client.read_until("\n\n"), HasSubstr("data: early\n\n"));
  for (int i = 2; i < 50; ++i) {
    feed_->add(fmt::format("id: {}\ndata: x\n\n", i));
    EXPECT_THAT(client.read_until("\n\n"), HasSubstr(fmt::format("id: {}\n", i)));
  }
  feed_->add("data: done\n\n", true);
  EXPECT_NE(client.read_until("data: done\n\n\r\n0\r\n\r\n"), "");
  EXPECT_TRUE(let_go());
  EXPECT_EQ(client.ask(head("GET", "/hello")).body, "hello") << "the connection goes on";
}

TEST_F(HttpEvents, AStreamThatHasEndedAlreadyIsWhole) {
  start();
  feed_->add("data: a\n\n");
  feed_->add("data: b\n\n", true);
  RawClient client(port_);
  EXPECT_EQ(client.ask(head("GET", "/events")).body, "data: a\n\ndata: b\n\n");
  EXPECT_EQ(client.ask(head("GET", "/events")).body, "");
  client.send("GET /events HTTP/1.0\r\n\r\n");
  const std::string old = client.read_all();
  EXPECT_THAT(old, HasSubstr("Connection: close"));
  EXPECT_THAT(old, Not(HasSubstr("chunked")));
}

TEST_F(HttpEvents, HeadAsksForNoEvents) {
  start();
  RawClient client(port_);
  client.send(head("HEAD", "/events"));
  EXPECT_EQ(client.reply(true).status, 200);
  EXPECT_TRUE(let_go());
  EXPECT_EQ(client.ask(head("GET", "/hello")).body, "hello");
}

TEST_F(HttpEvents, CommentsKeepAQuietStreamOpen) {
  options_.limits.alive = std::chrono::milliseconds(50);
  options_.limits.stalled = std::chrono::milliseconds(200);
  options_.limits.idle = std::chrono::milliseconds(200);
  start();
  RawClient client(port_);
  const auto begin = std::chrono::steady_clock::now();
  client.send(head("GET", "/events"));
  for (int i = 0; i < 10; ++i) EXPECT_THAT(client.read_until(":\n\n", 5), HasSubstr(":\n\n"));
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(400));
  feed_->add("data: x\n\n");
  EXPECT_THAT(client.read_until("data: x\n\n", 5), HasSubstr("data: x\n\n"));
}

TEST_F(HttpEvents, AListenerThatGoesIsNoticed) {
  start();
  for (const bool reset : {false, true}) {
    RawClient client(port_);
    client.send(head("GET", "/events"));
    client.read_until("\r\n\r\n");
    EXPECT_GT(feed_.use_count(), 1);
    reset ? client.reset() : client.close();
    EXPECT_TRUE(let_go());
  }
  feed_->add("data: x\n\n", true);
  EXPECT_EQ(get("/events").body, "data: x\n\n") << "nobody has taken it";
}

TEST_F(HttpEvents, WhatIsNotTakenStaysInTheFeed) {
  options_.limits.stalled = std::chrono::milliseconds(500);
  start();
  const std::string text = "data: " + std::string(10'000, 'x') + "\n\n";
  for (int i = 0; i < 5000; ++i) feed_->add(text);  // 50 MB, which no buffer of the system takes
  RawClient client(port_, 4096);
  client.send(head("GET", "/events"));
  client.read_until("\r\n\r\n");
  EXPECT_TRUE(let_go()) << "a listener who takes nothing is dropped";
  EXPECT_LT(feed_->taken(), 4000);
  EXPECT_EQ(get("/hello").status, 200);
}

TEST_F(HttpEvents, ASlowListenerGetsAllOfThem) {
  start();
  RawClient client(port_, 4096);
  client.send(head("GET", "/events"));
  client.read_until("\r\n\r\n");
  for (int i = 0; i < 300; ++i)
    feed_->add(fmt::format("data: {} {}\n\n", i, std::string(10'000, 'x')), i == 299);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (int i = 0; i < 300; ++i)
    ASSERT_THAT(client.read_until("\n\n"), HasSubstr(fmt::format("data: {} x", i)));
}

TEST_F(HttpEvents, ManyListenersAndNewsFromManyThreads) {
  std::vector<std::shared_ptr<Feed>> feeds(50);
  for (auto& feed : feeds) feed = std::make_shared<Feed>();
  add("GET", "/feeds/{n}",
      [&](http::Request& r) { return http::Reply{.body = feeds[std::stoul(r.captures[0])]}; });
  start();
  std::vector<RawClient> clients;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back(port_);
    clients.back().send(head("GET", fmt::format("/feeds/{}", i)));
  }
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w)
    writers.emplace_back([&, w] {
      for (int n = 0; n < 100; ++n)
        for (size_t i = static_cast<size_t>(w); i < feeds.size(); i += 4)
          feeds[i]->add(fmt::format("data: {}\n\n", n), n == 99);
    });
  for (auto& writer : writers) writer.join();
  for (auto& client : clients) {
    const std::string body = client.reply().body;
    size_t at = 0;
    for (int n = 0; n < 100; ++n)
      ASSERT_NE(at = body.find(fmt::format("data: {}\n\n", n), at), body.npos) << n;
  }
}

TEST_F(HttpEvents, TheServerEndsWithOpenStreams) {
  start();
  RawClient client(port_), waiting(port_), idle(port_), half(port_);
  client.send(head("GET", "/events"));
  client.read_until("\r\n\r\n");
  waiting.send(head("GET", "/wait"));
  ASSERT_TRUE(turnstile_.wait_for(1));
  EXPECT_EQ(idle.ask(head("GET", "/hello")).status, 200);
  half.send("GET /hel");
  const auto begin = std::chrono::steady_clock::now();
  cancel_ = true;
  EXPECT_NE(client.read_until("0\r\n\r\n"), "") << "it is ended properly";
  EXPECT_TRUE(idle.ends(5));
  EXPECT_TRUE(half.ends(5));
  thread_.join();  // though nobody has opened the turnstile
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_FALSE(RawClient(port_).connected());
  stop();
  EXPECT_EQ(feed_.use_count(), 1);
  feed_->add("data: late\n\n");  // and nobody listens
}

TEST_F(HttpEvents, AReplyUnderWayIsFinishedAtTheEnd) {
  start();
  RawClient waiting(port_);
  waiting.send(head("GET", "/wait"));
  ASSERT_TRUE(turnstile_.wait_for(1));
  cancel_ = true;
  // The server takes no new connections once it is ending, and then waits for a moment only.
  for (int i = 0; i < 4000 && RawClient(port_).connected(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  turnstile_.open();
  const RawReply reply = waiting.reply();
  EXPECT_EQ(reply.body, "waited");
  EXPECT_EQ(reply.header("Connection"), "close");
  thread_.join();
}

TEST_F(HttpEvents, AServerMayEndBeforeItRuns) {
  http::Server server(router_, options_);
  RawClient client(server.port());
  client.send(head("GET", "/hello"));
  server.stop();
  server.run(nullptr);
  { http::Server never(router_, options_); }
}

TEST_F(HttpEvents, AConnectionIsHandedOver) {
  std::mutex mutex;
  std::vector<http::HandedOver> taken;
  const auto take = std::make_shared<http::TakeOver>(http::TakeOver{[&](http::HandedOver handed) {
    const std::lock_guard lock(mutex);
    handed.socket.write_some(boost::asio::buffer("yours", 5));
    taken.push_back(std::move(handed));
  }});
  router_.add({.method = "GET", .pattern = "/world/{name}", .handler = {}, .take_over = take});
  options_.gate = [](http::Request& request, const http::Route*) -> std::optional<http::Reply> {
    if (request.asked("token")) return std::nullopt;
    return http::text_reply(403, "");
  };
  start();
  EXPECT_EQ(get("/world/a").status, 403);
  RawClient client(port_);
  client.send(head("GET", "/world/a?token=x", "Upgrade: websocket\r\n") + "rest");
  EXPECT_EQ(client.read_until("yours"), "yours");
  for (bool there = false; !there; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    const std::lock_guard lock(mutex);
    there = !taken.empty();
  }
  EXPECT_EQ(taken[0].request.path, "/world/a");
  EXPECT_EQ(taken[0].request.captures, std::vector<std::string>{"a"});
  EXPECT_EQ(taken[0].parser->get()["Upgrade"], "websocket");
  const auto rest = taken[0].rest.data();
  EXPECT_EQ(std::string(static_cast<const char*>(rest.data()), rest.size()), "rest");
  taken.clear();
  EXPECT_TRUE(client.ends(5)) << "it belongs to nobody else";
}

}  // namespace
}  // namespace tachy::test
