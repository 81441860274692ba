#include "models/umt5/umt5_config.h"

#include <tuple>

#include "base/error.h"
#include "weights/json_file.h"

namespace tachy {
namespace {

constexpr const char* kAttention = "encoder.block.{}.layer.0.SelfAttention.{}.weight";

const std::vector<int64_t>& matrix(const TensorSource& source, const std::string& name) {
  const TensorSource::Entry* entry = source.find(name);
  check(entry && entry->dims.size() == 2, ErrorCode::not_found, "text encoder: no matrix '{}' in {}", name,
        source.files_text());
  return entry->dims;
}

}  // namespace

bool is_umt5_encoder(const TensorSource& source) {
  const auto has_bias = [&](int layer) {
    return source.has(fmt::format(kAttention, layer, "relative_attention_bias"));
  };
  return source.has("shared.weight") && has_bias(0) &&
         (has_bias(1) || !source.has(fmt::format(kAttention, 1, "q")));
}

Umt5Config Umt5Config::from_tensors(const TensorSource& source) {
  Umt5Config c;
  const auto& words = matrix(source, "shared.weight");
  const auto& bias = matrix(source, fmt::format(kAttention, 0, "relative_attention_bias"));
  c.vocab_size = words[0], c.d_model = words[1];
  c.num_buckets = bias[0], c.num_heads = bias[1];
  check(c.vocab_size > 0 && c.d_model > 0 && c.num_buckets > 0 && c.num_heads > 0, ErrorCode::corrupt,
        "text encoder: {}: an embedding or position bias without values", source.files_text());
  c.d_kv = matrix(source, fmt::format(kAttention, 0, "q"))[0] / c.num_heads;
  c.d_ff = matrix(source, "encoder.block.0.layer.1.DenseReluDense.wi_0.weight")[0];
  c.num_layers = 0;
  while (source.has(fmt::format("encoder.block.{}.layer.0.layer_norm.weight", c.num_layers))) ++c.num_layers;
  const std::tuple<const char*, int64_t, int64_t, int64_t> ranges[] = {
      {"vocab_size", c.vocab_size, 1, 1 << 24},
      {"d_model", c.d_model, 1, 1 << 16},
      {"d_kv", c.d_kv, 1, 1024},
      {"d_ff", c.d_ff, 1, 1 << 18},
      {"num_layers", c.num_layers, 1, 1024},
      {"num_heads", c.num_heads, 1, 1024},
      {"num_buckets", c.num_buckets, 4, 4 * c.max_distance - 1}};
  for (const auto& [option, value, least, most] : ranges)
    check(value >= least && value <= most, ErrorCode::corrupt,
          "text encoder: {}: its tensors say that {} is {}, expected {} to {}", source.files_text(), option,
          value, least, most);
  check(is_umt5_encoder(source), ErrorCode::unsupported,
        "text encoder: {}: it is a T5 encoder, whose blocks share one position bias; Wan needs umT5",
        source.files_text());
  return c;
}

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
