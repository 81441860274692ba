#include "models/wan/branches/actions/action_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "weights/json_file.h"

namespace tachy {
namespace {

constexpr const char* kActionPart = "transformer";  // the name that messages use

}  // namespace

void WanActionConfig::validate() const {
  const auto fits = [&](int64_t width) {
    return width % heads == 0 && width / heads % 2 == 0 && width / heads >= turning;
  };
  check(!present() || (fits(keyboard_hidden) && (mouse_dim == 0 || fits(mouse_hidden)) && turning % 2 == 0),
        ErrorCode::unsupported,
        "wan: an action module of {} heads, {} and {} channels wide, of which {} turn: expected heads of an "
        "even number of channels",
        heads, keyboard_hidden, mouse_hidden, turning);
}

bool WanActionConfig::in_block(int64_t index) const {
  return std::find(blocks.begin(), blocks.end(), index) != blocks.end();
}

int64_t WanActionConfig::frame_of(int64_t first, int64_t i) const {
  return std::max<int64_t>(0, frames_each * (first - windows) + i);
}

WanActionConfig WanActionConfig::from_json(const nlohmann::json& j, int64_t layers, int64_t dim) {
  WanActionConfig c;
  c.blocks = json_ints(j, "blocks", 0, layers - 1, 4096);
  std::sort(c.blocks.begin(), c.blocks.end());
  c.blocks.erase(std::unique(c.blocks.begin(), c.blocks.end()), c.blocks.end());
  c.keyboard_dim = json_int(j, "keyboard_dim_in", 6, 1, 4096);
  c.mouse_dim = json_bool(j, "enable_mouse", true) ? json_int(j, "mouse_dim_in", 2, 1, 4096) : 0;
  c.hidden = json_int(j, "hidden_size", 128, 1, 1 << 16);
  c.keyboard_hidden = json_int(j, "keyboard_hidden_dim", 1024, 1, 1 << 16);
  c.mouse_hidden = json_int(j, "mouse_hidden_dim", 1024, 1, 1 << 16);
  c.heads = json_int(j, "heads_num", 16, 1, 1024);
  c.frames_each = json_int(j, "vae_time_compression_ratio", 4, 1, 64);
  c.windows = json_int(j, "windows_size", 3, 1, 64);
  c.theta = json_double(j, "rope_theta", 256, 1, 1e9);
  const auto rope = json_ints(j, "rope_dim_list", 0, 1024, 3);
  if (!rope.empty()) c.turning = rope[0];
  const int64_t width = json_int(j, "img_hidden_size", 1536, 1, 1 << 20);
  check(width == dim, ErrorCode::corrupt, "wan: action_config says img_hidden_size {}, the model is {} wide",
        width, dim);
  check(json_bool(j, "enable_keyboard", true) && json_bool(j, "qk_norm", true) &&
            !json_bool(j, "qkv_bias", false),
        ErrorCode::unsupported,
        "wan: only action modules with a keyboard, qk_norm and no qkv_bias are supported");
  c.validate();
  return c;
}

WanActionConfig WanActionConfig::from_tensors(const TensorSource& source, int64_t layers, int64_t dim) {
  WanActionConfig c;
  const auto name = [&](int64_t block, const char* tensor) {
    return fmt::format("blocks.{}.action_model.{}", block, tensor);
  };
  for (int64_t i = 0; i < layers; ++i)
    if (source.has(name(i, "keyboard_embed.0.weight"))) c.blocks.push_back(i);
  if (!c.present()) return c;
  const int64_t first = c.blocks[0];
  const auto extent = [&](const char* tensor, size_t axis) {
    const int64_t n = source.dims_of(kActionPart, name(first, tensor), 2)[axis];
    check(n >= 1 && n <= 1 << 18, ErrorCode::corrupt, "{}: tensor '{}' has an extent of {}",
          source.files_text(), name(first, tensor), n);
    return n;
  };
  c.keyboard_dim = extent("keyboard_embed.0.weight", 1), c.hidden = extent("keyboard_embed.0.weight", 0);
  c.keyboard_hidden = extent("mouse_attn_q.weight", 0);
  c.mouse_dim = 0;
  if (source.has(name(first, "t_qkv.weight"))) {
    c.mouse_hidden = extent("t_qkv.weight", 1);
    const int64_t more = extent("mouse_mlp.0.weight", 1) - dim;
    check(more > 0 && more % c.past() == 0, ErrorCode::corrupt,
          "{}: tensor '{}' has {} columns, expected {} and a multiple of {} more", source.files_text(),
          name(first, "mouse_mlp.0.weight"), more + dim, dim, c.past());
    c.mouse_dim = more / c.past();
  }
  return c;
}

}  // namespace tachy
