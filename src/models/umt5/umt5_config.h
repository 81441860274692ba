// Options of a umT5 encoder, from the config.json that Hugging Face's UMT5EncoderModel writes; the original
// Wan layout has no such file and always means umT5-xxl.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace tachy {

struct Umt5Config {
  int64_t vocab_size = 256384;
  int64_t d_model = 4096;
  int64_t d_kv = 64;  // per head; heads · d_kv need not equal d_model
  int64_t d_ff = 10240;
  int64_t num_layers = 24;
  int64_t num_heads = 64;
  int64_t num_buckets = 32;
  int64_t max_distance = 128;
  float eps = 1e-6f;

  static Umt5Config from_json(const nlohmann::json& config);
};

}  // namespace tachy
