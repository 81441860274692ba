#include "serve/steered_world.h"

namespace tachy::serve {
namespace {

class ModelWorld final : public SteeredWorld {
 public:
  explicit ModelWorld(World world) : world_(std::move(world)) {}
  const WorldInfo& info() const override { return world_.info(); }
  std::string device() const override { return world_.device(); }
  void start(const WorldStart& start) override { world_.start(start); }
  void reset() override { world_.reset(); }
  void act(const WorldAction& action, uint64_t stamp) override { world_.act(action, stamp); }
  WorldBlock next_block(const std::function<void(const RgbImage& image, int64_t index)>& frame) override {
    return world_.next_block(frame);
  }
  void stop() override { world_.stop(); }

 private:
  World world_;
};

}  // namespace

std::unique_ptr<SteeredWorld> steered(World world) { return std::make_unique<ModelWorld>(std::move(world)); }

}  // namespace tachy::serve
