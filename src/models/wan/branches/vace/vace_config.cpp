#include "models/wan/branches/vace/vace_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "weights/json_file.h"

namespace tachy {

int64_t WanVaceConfig::hint_of(int64_t layer) const {
  const auto found = std::ranges::find(layers, layer);
  return found == layers.end() ? -1 : found - layers.begin();
}

WanVaceConfig WanVaceConfig::from_json(const nlohmann::json& j, int64_t num_layers) {
  WanVaceConfig c;
  c.layers = json_ints(j, "vace_layers", 0, num_layers - 1, 4096);
  if (!c.present()) return c;
  c.in_channels = json_int(j, j.contains("vace_in_dim") ? "vace_in_dim" : "vace_in_channels", 96, 1, 4096);
  check(c.layers[0] == 0 && std::ranges::is_sorted(c.layers, std::less_equal()), ErrorCode::unsupported,
        "wan: vace_layers: expected rising numbers of blocks from 0 on");
  return c;
}

WanVaceConfig WanVaceConfig::from_tensors(const TensorSource& source, int64_t num_layers) {
  WanVaceConfig c;
  int64_t count = 0;
  while (source.has(fmt::format("vace_blocks.{}.attn1.to_q.weight", count))) ++count;
  if (count == 0) return c;
  check(count <= num_layers, ErrorCode::corrupt, "{}: {} control blocks of VACE for {} blocks",
        source.files_text(), count, num_layers);
  for (int64_t i = 0; i < count; ++i) c.layers.push_back(i * (num_layers / count));
  c.in_channels = source.dims_of("transformer", "vace_patch_embedding.weight", 5)[1];
  check(c.in_channels >= 1 && c.in_channels <= 4096, ErrorCode::corrupt,
        "{}: its tensors say that vace_in_channels is {}, expected 1 to 4096", source.files_text(),
        c.in_channels);
  return c;
}

}  // namespace tachy
