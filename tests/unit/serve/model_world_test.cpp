// A model's world is played through the page: pictures come, keys have an effect, and a block that is not
// finite is reported, after which the next start works.
#include "../pipelines/world_model.h"
#include "client.h"
#include "media/picture/image_reader.h"
#include "serve/messages.h"
#include "tensor/memory.h"

namespace tachy::test {
namespace {

class PageOfAModel : public testing::Test {
 protected:
  void open(const WorldModel& model) {
    world_ = serve::steered(World(model.path(), {.threads = 2, .device = "cpu"}));
    serve::PageOptions options{.port = 0};
    options.play.start = drawn_start(200, 100, 50);
    server_ = std::make_unique<serve::PageServer>(*world_, options);
    thread_ = std::thread([this] { server_->run(); });
    ASSERT_EQ(visitor_.open(server_->port()), 101u);
  }
  void TearDown() override {
    if (server_) server_->stop();
    if (thread_.joinable()) thread_.join();
  }

  std::unique_ptr<serve::SteeredWorld> world_;
  std::unique_ptr<serve::PageServer> server_;
  std::thread thread_;
  Visitor visitor_;
};

TEST_F(PageOfAModel, IsPlayed) {
  const WorldModel model({.world = WorldModel::world()});
  open(model);
  const auto hello = visitor_.event("hello");
  ASSERT_TRUE(hello);
  EXPECT_EQ((*hello)["kind"], "universal");
  EXPECT_EQ((*hello)["first_block_frames"], 9);
  visitor_.send(R"({"type":"start","seed":7})");
  ASSERT_TRUE(visitor_.event("state", "running"));
  visitor_.send(R"({"type":"input","keys":["W"],"mouse":[0,0.1],"stamp":5})");
  for (int i = 0; i < 100; ++i) {
    const auto frame = visitor_.frame();
    ASSERT_TRUE(frame);
    const std::vector<uint8_t> jpeg(frame->bytes.begin() + serve::kFrameHeaderBytes, frame->bytes.end());
    EXPECT_EQ(decode_image(jpeg, "frame").width, 48);
    if (Visitor::number(*frame, 24) == 5) return;
  }
  FAIL() << "the key never counted";
}

// Two servers play at the same time with what one engine has in memory: the second world loads no weights,
// and both give the same frames.
TEST(PagesOfAnEngine, ShareItsModel) {
  const WorldModel model({.world = WorldModel::world()});
  const Engine engine(model.path(), {.threads = 2, .weights = "packed", .device = "cpu"});
  const uint64_t none = Buffer::live_bytes();
  const auto one = serve::steered(World(engine));
  const uint64_t first = Buffer::live_bytes() - none;
  const auto other = serve::steered(World(engine));
  EXPECT_LT(Buffer::live_bytes() - none, 2 * first) << "the weights are there once";
  serve::PageOptions options{.port = 0};
  options.play.start = drawn_start(200, 100, 50);
  std::vector<std::unique_ptr<serve::PageServer>> servers;
  std::vector<std::thread> threads;
  std::vector<Visitor> visitors(2);
  for (serve::SteeredWorld* world : {one.get(), other.get()}) {
    servers.push_back(std::make_unique<serve::PageServer>(*world, options));
    threads.emplace_back([server = servers.back().get()] { server->run(); });
  }
  std::string pictures[2];
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(visitors[i].open(servers[i]->port()), 101u);
    visitors[i].send(R"({"type":"start","seed":7})");
  }
  for (size_t i = 0; i < 2; ++i)
    if (const auto frame = visitors[i].frame()) pictures[i] = frame->bytes.substr(serve::kFrameHeaderBytes);
  EXPECT_FALSE(pictures[0].empty());
  EXPECT_EQ(pictures[0], pictures[1]);
  for (const auto& server : servers) server->stop();
  for (std::thread& thread : threads) thread.join();
}

TEST_F(PageOfAModel, ThatIsBrokenSaysSo) {
  const WorldModel model({.world = WorldModel::world(), .broken = true});
  open(model);
  for (int i = 0; i < 2; ++i) {
    visitor_.send(R"({"type":"start"})");
    const auto error = visitor_.event("state", "error");
    ASSERT_TRUE(error);
    EXPECT_EQ((*error)["code"], "numerical");
  }
}

}  // namespace
}  // namespace tachy::test
