// Tests that callers may not be slow, large or many.
#include <dirent.h>
#include <sys/resource.h>

#include "http/lane_pool.h"
#include "server_case.h"

namespace tachy::test {
namespace {

using namespace std::chrono_literals;

class HttpLimits : public HttpServerTest {};

TEST_F(HttpLimits, HeadersThatAreTooLong) {
  start();
  EXPECT_EQ(get("/hello", "X: " + std::string(20'000, 'x') + "\r\n").status, 431);
  EXPECT_EQ(get("/" + std::string(20'000, 'x')).status, 431);
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "X-Header: x\r\n";
  EXPECT_EQ(get("/hello", many).status, 431);
  RawClient endless(port_);
  for (int i = 0; i < 1000 && endless.send(std::string(1000, 'x')); ++i) {
  }
  EXPECT_EQ(endless.reply().status, 431);
  EXPECT_EQ(get("/hello", "X: " + std::string(10'000, 'x') + "\r\n").status, 200);
}

TEST_F(HttpLimits, TextsThatAreTooLong) {
  options_.limits.text_bytes = 1000;
  start();
  EXPECT_EQ(ask(post("/echo", "text/plain", std::string(1000, 'x'))).status, 200);
  const RawReply refused = ask(post("/echo", "text/plain", std::string(1001, 'x')));
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.body, testing::HasSubstr("at most 1000 bytes"));
  const std::string begin = head("POST", "/echo", "Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(ask(begin + "3e8\r\n" + std::string(1000, 'x') + "\r\n0\r\n\r\n").status, 200);
  EXPECT_EQ(ask(begin + "3e8\r\n" + std::string(1000, 'x') + "\r\n1\r\nx\r\n0\r\n\r\n").status, 413);
  EXPECT_EQ(ask(begin + "ffffffffffffffff\r\n" + std::string(1001, 'x')).status, 413);
  EXPECT_EQ(ask(begin + "1ffffffffffffffff\r\nx").status, 400);
  RawClient endless(port_);  // a line between chunks that does not end
  endless.send(begin + "1;");
  for (int i = 0; i < 1000 && endless.send(std::string(1000, 'x')); ++i) {
  }
  EXPECT_EQ(endless.reply().status, 400);
}

TEST_F(HttpLimits, SlowHeadersAndBodies) {
  options_.limits.header = 1500ms;  // a busy machine may halt this test for a second
  options_.limits.stalled = 1500ms;
  start();
  RawClient silent(port_), header(port_), body(port_), form(port_), dripping(port_);
  header.send("GET /hello HT");
  body.send(head("POST", "/echo", "Content-Length: 10\r\n") + "x");
  form.send(
      head("POST", "/form", "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100\r\n") +
      "--b\r\n");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(silent.read_all(), "") << "closed without a word";
  EXPECT_EQ(header.reply().status, 408);
  EXPECT_EQ(body.reply().status, 408);
  EXPECT_EQ(form.reply().status, 408);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_TRUE(header.ends(5));
  // A byte now and then does not help.
  dripping = RawClient(port_);
  for (int i = 0;
       i < 200 && !dripping.receive(0.02) && dripping.send(i == 0 ? "GET /hello HTTP/1.1\r\nX: " : "x");
       ++i) {
  }
  EXPECT_EQ(dripping.reply().status, 408);
  RawClient slow(port_);
  slow.send(head("POST", "/echo", "Content-Length: 1000\r\n"));
  for (int i = 0; i < 200 && !slow.receive(0.02) && slow.send("x"); ++i) {
  }
  EXPECT_EQ(slow.reply().status, 408);
}

TEST_F(HttpLimits, ASlowButSteadyBodyArrives) {
  options_.limits.stalled = 2s;
  start();
  RawClient client(port_);
  client.send(head("POST", "/echo", "Content-Length: 40000\r\n"));
  for (int i = 0; i < 10; ++i) {  // it takes longer than `stalled`, and comes at 16 kB a second
    std::this_thread::sleep_for(250ms);
    client.send(std::string(4000, 'x'));
  }
  EXPECT_EQ(client.reply().body.size(), 40000u);
}

TEST_F(HttpLimits, IdleConnectionsAreClosed) {
  options_.limits.idle = 1500ms;
  start();
  RawClient client(port_);
  EXPECT_EQ(client.ask(head("GET", "/hello")).status, 200);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(client.ask(head("GET", "/hello")).status, 200);
  EXPECT_TRUE(client.ends(5));
}

TEST_F(HttpLimits, AReplyThatNobodyTakesIsDropped) {
  options_.limits.stalled = 300ms;
  const auto text = std::make_shared<std::string>(30'000'000, 'x');
  std::weak_ptr<std::string> alive = text;
  add("GET", "/long", [text](http::Request&) { return http::text_reply(200, *text); });
  const auto path = write_file("long", *text);
  add("GET", "/file", [path](http::Request&) { return http::Reply{.body = http::FileBody{path, ""}}; });
  start();
  for (const char* target : {"/long", "/file"}) {
    RawClient client(port_, 4096);
    client.send(head("GET", target));
    // In small steps, since a machine that halts this process halts the server with it.
    for (int i = 0; i < 50; ++i) std::this_thread::sleep_for(20ms);
    EXPECT_LT(client.read_all().size(), 29'000'000u) << target;
  }
  EXPECT_EQ(get("/hello").status, 200);
}

TEST_F(HttpLimits, AFullLaneSaysSoAtOnce) {
  options_.quick_threads = 2;
  options_.limits.quick_waiting = 3;
  add(
      "GET", "/slow", [](http::Request&) { return http::text_reply(200, "slow"); }, http::Lane::slow);
  start();
  std::vector<RawClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back(port_);
    clients.back().send(head("GET", "/wait"));
    if (i < 2) {
      ASSERT_TRUE(turnstile_.wait_for(i + 1));
    }
  }
  RawReply refused;
  for (int i = 0; i < 1000 && refused.status != 503; ++i) {
    // The three that wait have come when one more is refused; until then it waits itself, so it goes away.
    RawClient one(port_);
    one.send(head("GET", "/wait"));
    if (one.receive(0.05)) refused = one.reply();
  }
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  EXPECT_EQ(get("/slow").body, "slow") << "the other lane is free";
  turnstile_.open();
  for (auto& client : clients) EXPECT_THAT(client.reply().status, testing::AnyOf(200, 503));
  EXPECT_EQ(get("/hello").body, "hello");
}

TEST_F(HttpLimits, WhoeverWaitsMakesRoomForOthers) {
  options_.limits.connections = 4;
  start();
  std::vector<RawClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(port_);
    if (i == 0) {
      clients.back().send("GET /hello HT");  // nobody keeps others out by half a header
    } else {
      EXPECT_EQ(clients.back().ask(head("GET", "/hello")).status, 200);
    }
  }
  EXPECT_EQ(get("/hello").status, 200);
  EXPECT_TRUE(clients[0].ends(5)) << "it has waited longest";
  EXPECT_EQ(clients[3].ask(head("GET", "/hello")).status, 200);
}

TEST_F(HttpLimits, WithoutRoomAConnectionIsClosed) {
  options_.limits.connections = 4;
  options_.quick_threads = 4;
  start();
  std::vector<RawClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(port_);
    clients.back().send(head("GET", "/wait"));
  }
  ASSERT_TRUE(turnstile_.wait_for(4));
  EXPECT_TRUE(RawClient(port_).ends(5));
  turnstile_.open();
  for (auto& client : clients) EXPECT_EQ(client.reply().body, "waited");
  EXPECT_EQ(get("/hello").status, 200);
}

TEST_F(HttpLimits, TenThousandConnectionsHurtNobody) {
  options_.limits.connections = 200;
  start();
  RawClient busy(port_);
  busy.send(head("GET", "/wait"));
  ASSERT_TRUE(turnstile_.wait_for(1));
  std::deque<RawClient> crowd;
  for (int i = 0; i < 10'000; ++i) {
    crowd.emplace_back(port_);
    if (crowd.size() > 300) crowd.pop_front();
    if (i % 1000 == 999) {
      EXPECT_EQ(get("/hello").status, 200) << i;
    }
  }
  turnstile_.open();
  EXPECT_EQ(busy.reply().body, "waited");
}

TEST_F(HttpLimits, DescriptorsThatRunOutDoNotEndAccepting) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  start();
  EXPECT_EQ(get("/hello").status, 200);
  // From here on the process may open a few more.
  const int next = ::dup(0);
  ::close(next);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 12;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    std::vector<RawClient> clients;
    for (int i = 0; i < 12; ++i) clients.emplace_back(port_);
    std::this_thread::sleep_for(300ms);
  }
  EXPECT_EQ(get("/hello").status, 200);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(LanePoolTest, HoldsItsBound) {
  Turnstile turnstile;
  std::atomic<int> done = 0;
  http::LanePool pool(1, 2);
  EXPECT_TRUE(pool.add([&] { turnstile.pass(), ++done; }));
  ASSERT_TRUE(turnstile.wait_for(1));
  EXPECT_TRUE(pool.add([&] { ++done; }));
  EXPECT_TRUE(pool.add([&] { ++done; }));
  EXPECT_FALSE(pool.add([&] { ++done; }));
  turnstile.open();
  for (int i = 0; i < 1000 && done < 3; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(done, 3);
  pool.stop();
  EXPECT_FALSE(pool.add([&] { ++done; }));
}

}  // namespace
}  // namespace tachy::test
