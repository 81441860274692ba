#include "models/umt5/umt5_config.h"

#include "base/error.h"
#include "weights/json_file.h"

namespace tachy {

Umt5Config Umt5Config::from_json(const nlohmann::json& j) {
  Umt5Config c;
  c.vocab_size = json_int(j, "vocab_size", 1, 1 << 24);
  c.d_model = json_int(j, "d_model", 1, 1 << 16);
  c.d_kv = json_int(j, "d_kv", 1, 1024);
  c.d_ff = json_int(j, "d_ff", 1, 1 << 18);
  c.num_layers = json_int(j, "num_layers", 1, 1024);
  c.num_heads = json_int(j, "num_heads", 1, 1024);
  c.num_buckets = json_int(j, "relative_attention_num_buckets", 32, 4, 4096);
  c.max_distance = json_int(j, "relative_attention_max_distance", 128, 2, 1 << 20);
  c.eps = static_cast<float>(json_double(j, "layer_norm_epsilon", 1e-6, 0, 1));
  const std::string ff = json_string(j, "feed_forward_proj", "gated-gelu");
  check(ff == "gated-gelu", ErrorCode::unsupported,
        "umt5: feed_forward_proj '{}' is not supported, only gated-gelu", ff);
  check(c.max_distance > c.num_buckets / 4, ErrorCode::corrupt,
        "umt5: relative_attention_max_distance {} is not above a quarter of the {} buckets", c.max_distance,
        c.num_buckets);
  return c;
}

}  // namespace tachy
