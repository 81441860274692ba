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

}  // namespace tachy
