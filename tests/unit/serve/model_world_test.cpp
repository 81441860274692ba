// A model's world through the page: pictures come, keys have an effect, and a block that is not finite is
// reported, after which the next start works.
#include "../pipelines/world_model.h"
#include "client.h"
#include "media/picture/image_reader.h"
#include "serve/messages.h"

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
