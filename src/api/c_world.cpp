// Worlds of the C interface.
#include <memory>
#include <vector>

#include "api/c_engine.h"
#include "api/c_guard.h"
#include "api/world.h"

struct tachyscope_world {
  tachy::World world;
  std::vector<const char*> keys{};
};

namespace {

using tachy::guarded;

tachy::WorldStart convert(const tachyscope_world_start_with* in) {
  tachy::require(in != nullptr, "world: the start of the world must not be null");
  tachy::WorldStart out;
  out.prompt = in->prompt ? in->prompt : "";
  out.seed = in->seed;
  if (!in->rgb) return out;
  tachy::require(in->width >= 1 && in->height >= 1 && in->width <= 1 << 14 && in->height <= 1 << 14,
                 "world: expected a picture with sides of 1 to {}, got {}x{}", 1 << 14, in->width,
                 in->height);
  const size_t bytes = size_t{3} * static_cast<size_t>(in->width) * static_cast<size_t>(in->height);
  out.image = std::make_shared<const tachy::Picture>(
      tachy::Picture{in->width, in->height, std::vector<uint8_t>(in->rgb, in->rgb + bytes)});
  return out;
}

tachy::WorldOptions convert(const tachyscope_world_options& in) {
  tachy::WorldOptions out{.width = in.width, .height = in.height};
  if (in.steps > 0) out.steps = in.steps;
  if (in.window > 0) out.window = in.window;
  if (in.shift > 0) out.shift = in.shift;
  return out;
}

tachyscope_world* opened(tachy::World world) {
  auto made = std::make_unique<tachyscope_world>(tachyscope_world{.world = std::move(world)});
  for (const std::string& key : made->world.info().keys) made->keys.push_back(key.c_str());
  return made.release();
}

}  // namespace

extern "C" {

int tachyscope_world_open(const char* model, const char* device, const tachyscope_world_options* options,
                          tachyscope_world** out) {
  return guarded([&] {
    tachy::require(model && device && out,
                   "world: the model, the device and the pointer for the world must not be null");
    const tachyscope_world_options given = options ? *options : tachyscope_world_options{};
    const tachy::EngineOptions engine{
        .threads = given.threads, .device = device, .max_vram = given.max_vram_bytes};
    *out = opened(tachy::World(model, engine, convert(given)));
  });
}

int tachyscope_world_open_on(tachyscope_engine* engine, const tachyscope_world_options* options,
                             tachyscope_world** out) {
  return guarded([&] {
    tachy::require(engine && out, "world: the engine and the pointer for the world must not be null");
    const tachyscope_world_options given = options ? *options : tachyscope_world_options{};
    tachy::require(given.threads == 0 && given.max_vram_bytes == 0,
                   "world: threads and max_vram_bytes are those of its engine; leave them 0");
    *out = opened(tachy::World(engine->engine, convert(given)));
  });
}

int tachyscope_world_about(const tachyscope_world* world, tachyscope_world_info* out) {
  return guarded([&] {
    tachy::require(world && out, "world: the world and the pointer for its description must not be null");
    const tachy::WorldInfo& i = world->world.info();
    *out = {.kind = i.kind.c_str(),
            .keys = world->keys.data(),
            .key_count = static_cast<int32_t>(world->keys.size()),
            .mouse = i.mouse,
            .mouse_step = i.mouse_step,
            .fps = i.fps,
            .width = i.width,
            .height = i.height,
            .takes_image = i.takes_image,
            .takes_prompt = i.takes_prompt,
            .first_block_frames = i.first_block_frames,
            .block_frames = i.block_frames,
            .peak_bytes = i.peak_bytes};
  });
}

int tachyscope_world_start(tachyscope_world* world, const tachyscope_world_start_with* with) {
  return guarded([&] {
    tachy::require(world != nullptr, "world: the world must not be null");
    world->world.start(convert(with));
  });
}

int tachyscope_world_act(tachyscope_world* world, const float* keyboard, int32_t key_count,
                         const float* mouse, uint64_t stamp) {
  return guarded([&] {
    tachy::require(world && key_count >= 0 && key_count <= 4096,
                   "world: a world and 0 to 4096 keys are needed, got {} keys", key_count);
    tachy::WorldAction action;
    if (keyboard) action.keyboard.assign(keyboard, keyboard + key_count);
    if (mouse) action.mouse.assign(mouse, mouse + 2);
    world->world.act(action, stamp);
  });
}

int tachyscope_world_next_block(tachyscope_world* world, tachyscope_frame_fn frame, void* user,
                                tachyscope_world_block* block) {
  return guarded([&] {
    tachy::require(world != nullptr, "world: the world must not be null");
    const tachy::WorldBlock made = world->world.next_block([&](const tachy::RgbImage& image, int64_t index) {
      if (frame && frame(user, image.rgb.data(), image.width, image.height, index)) world->world.stop();
    });
    if (block)
      *block = {made.index, made.first_frame, made.frames, made.stamp, made.first_frame_s, made.seconds};
  });
}

void tachyscope_world_stop(tachyscope_world* world) {
  if (world) world->world.stop();
}

int tachyscope_world_reset(tachyscope_world* world) {
  return guarded([&] {
    tachy::require(world != nullptr, "world: the world must not be null");
    world->world.reset();
  });
}

void tachyscope_world_close(tachyscope_world* world) { delete world; }

}  // extern "C"
