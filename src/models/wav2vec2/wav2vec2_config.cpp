#include "models/wav2vec2/wav2vec2_config.h"

#include <fmt/ranges.h>

#include <map>
#include <tuple>

#include "base/error.h"
#include "weights/json_file.h"

namespace tachy {
namespace {

constexpr const char* kConvolution = "feature_extractor.conv_layers.{}.{}";
constexpr const char* kLayer = "encoder.layers.{}.{}";
constexpr const char* kPosition = "encoder.pos_conv_embed.conv.";
constexpr size_t kMostConvolutions = 32;
constexpr int64_t kMostStride = 1 << 16;  // samples per vector

using Lists = std::vector<int64_t>;

const Lists& dims_of(const TensorSource& source, const std::string& name, size_t rank) {
  const TensorSource::Entry* entry = source.find(name);
  check(entry && entry->dims.size() == rank, ErrorCode::not_found,
        "audio encoder: no tensor '{}' of {} dimensions in {}", name, rank, source.files_text());
  return entry->dims;
}

ops::Activation activation_of(const nlohmann::json& j, const char* key) {
  const std::string name = json_string(j, key, "gelu");
  if (name == "gelu") return ops::Activation::gelu_erf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return ops::Activation::gelu_tanh;
  fail(ErrorCode::unsupported,
       "audio encoder: {} '{}' is not supported, only gelu, gelu_new and gelu_pytorch_tanh", key, name);
}

// Checks options that depend on one another. `of` names their source in messages.
void check_together(const Wav2Vec2Config& c, const std::string& of) {
  check(c.hidden_size % c.num_heads == 0, ErrorCode::corrupt,
        "audio encoder: {}: hidden_size {} is not a multiple of num_attention_heads {}", of, c.hidden_size,
        c.num_heads);
  check(c.hidden_size % c.pos_groups == 0, ErrorCode::corrupt,
        "audio encoder: {}: hidden_size {} is not a multiple of num_conv_pos_embedding_groups {}", of,
        c.hidden_size, c.pos_groups);
  check(!c.conv_dim.empty() && c.conv_dim.size() == c.conv_kernel.size() &&
            c.conv_dim.size() == c.conv_stride.size(),
        ErrorCode::corrupt,
        "audio encoder: {}: {} conv_dim, {} conv_kernel and {} conv_stride, expected as many of each", of,
        c.conv_dim.size(), c.conv_kernel.size(), c.conv_stride.size());
  int64_t stride = 1;
  for (const int64_t s : c.conv_stride) {
    stride *= s;
    check(stride <= kMostStride, ErrorCode::corrupt,
          "audio encoder: {}: conv_stride makes one vector of {} samples or more, expected at most {}", of,
          stride, kMostStride);
  }
}

void check_ranges(const TensorSource& source,
                  std::initializer_list<std::tuple<const char*, int64_t, int64_t, int64_t>> ranges) {
  for (const auto& [option, value, least, most] : ranges)
    check(value >= least && value <= most, ErrorCode::corrupt,
          "audio encoder: {}: its tensors say that {} is {}, expected {} to {}", source.files_text(), option,
          value, least, most);
}

// Tells the number of heads of the published models, base and large, by their width.
int64_t heads_of(const TensorSource& source, int64_t hidden_size) {
  static const std::map<int64_t, int64_t> known = {{768, 12}, {1024, 16}};
  const auto found = known.find(hidden_size);
  check(found != known.end(), ErrorCode::not_found,
        "audio encoder: {}: shapes do not tell how many heads a model of width {} has; a config.json beside "
        "the "
        "file would (num_attention_heads)",
        source.files_text(), hidden_size);
  return found->second;
}

// Reads the channels; kernels and strides are the same in all published models.
void read_convolutions(const TensorSource& source, Wav2Vec2Config& c) {
  const Lists usual = c.conv_kernel;
  c.conv_dim.clear(), c.conv_kernel.clear();
  for (size_t i = 0; i < kMostConvolutions; ++i) {
    const std::string name = fmt::format(kConvolution, i, "conv.weight");
    if (!source.has(name)) break;
    const Lists& dims = dims_of(source, name, 3);
    check_ranges(source, {{"conv_dim", dims[0], 1, 1 << 16}, {"conv_kernel", dims[2], 1, 1024}});
    c.conv_dim.push_back(dims[0]), c.conv_kernel.push_back(dims[2]);
  }
  check(c.conv_kernel == usual, ErrorCode::not_found,
        "audio encoder: {}: shapes do not tell the strides of convolutions whose kernels are {}; a "
        "config.json beside "
        "the file would (conv_stride)",
        source.files_text(), fmt::join(c.conv_kernel, ", "));
}

}  // namespace

int64_t Wav2Vec2Config::vectors(int64_t samples) const {
  int64_t n = samples;
  for (size_t i = 0; i < conv_kernel.size(); ++i)
    n = n < conv_kernel[i] ? 0 : (n - conv_kernel[i]) / conv_stride[i] + 1;
  return n;
}

int64_t Wav2Vec2Config::least_samples() const {
  int64_t n = 1;
  for (size_t i = conv_kernel.size(); i-- > 0;) n = (n - 1) * conv_stride[i] + conv_kernel[i];
  return n;
}

bool is_wav2vec2(const TensorSource& source) {
  return source.has(fmt::format(kConvolution, 0, "conv.weight")) &&
         source.has(std::string(kPosition) + "bias");
}

Wav2Vec2Config Wav2Vec2Config::from_tensors(const TensorSource& source) {
  check(is_wav2vec2(source), ErrorCode::not_found, "audio encoder: {} holds no wav2vec2",
        source.files_text());
  Wav2Vec2Config c;
  read_convolutions(source, c);
  c.conv_bias = source.has(fmt::format(kConvolution, 0, "conv.bias"));
  // Published models with a norm after each convolution are also those whose layers begin with a norm.
  c.layer_features = c.norm_first = source.has(fmt::format(kConvolution, 1, "layer_norm.weight"));
  const std::string folded = std::string(kPosition) + "weight",
                    normed = std::string(kPosition) + "parametrizations.weight.original1";
  const Lists& position = dims_of(source, source.has(folded) ? folded : normed, 3);
  c.hidden_size = position[0], c.pos_kernel = position[2];
  c.intermediate_size =
      dims_of(source, fmt::format(kLayer, 0, "feed_forward.intermediate_dense.weight"), 2)[0];
  c.num_layers = 0;
  while (source.has(fmt::format(kLayer, c.num_layers, "layer_norm.weight"))) ++c.num_layers;
  check_ranges(source,
               {{"hidden_size", c.hidden_size, 1, 1 << 16},
                {"intermediate_size", c.intermediate_size, 1, 1 << 18},
                {"num_conv_pos_embeddings", c.pos_kernel, 1, 4096},
                {"the width of a group of num_conv_pos_embedding_groups", position[1], 1, c.hidden_size}});
  c.pos_groups = c.hidden_size / position[1];
  c.num_heads = heads_of(source, c.hidden_size);
  check_together(c, source.files_text());
  return c;
}

Wav2Vec2Config Wav2Vec2Config::from_json(const nlohmann::json& j) {
  const std::string type = json_string(j, "model_type", "wav2vec2");
  check(type == "wav2vec2", ErrorCode::unsupported,
        "audio encoder: model_type '{}' is not supported, only wav2vec2", type);
  Wav2Vec2Config c;
  c.hidden_size = json_int(j, "hidden_size", 768, 1, 1 << 16);
  c.intermediate_size = json_int(j, "intermediate_size", 3072, 1, 1 << 18);
  c.num_layers = json_int(j, "num_hidden_layers", 12, 1, 1024);
  c.num_heads = json_int(j, "num_attention_heads", 12, 1, 1024);
  const auto list = [&](const char* key, Lists& to, int64_t most) {
    if (j.contains(key)) to = json_ints(j, key, 1, most, kMostConvolutions);
  };
  list("conv_dim", c.conv_dim, 1 << 16);
  list("conv_kernel", c.conv_kernel, 1024);
  list("conv_stride", c.conv_stride, 1024);
  c.conv_bias = json_bool(j, "conv_bias", false);
  const std::string norm = json_string(j, "feat_extract_norm", "group");
  check(norm == "group" || norm == "layer", ErrorCode::unsupported,
        "audio encoder: feat_extract_norm '{}' is not supported, only group and layer", norm);
  c.layer_features = norm == "layer";
  c.norm_first = json_bool(j, "do_stable_layer_norm", false);
  c.pos_kernel = json_int(j, "num_conv_pos_embeddings", 128, 1, 4096);
  c.pos_groups = json_int(j, "num_conv_pos_embedding_groups", 16, 1, 1 << 16);
  c.feature_act = activation_of(j, "feat_extract_activation");
  c.act = activation_of(j, "hidden_act");
  c.eps = static_cast<float>(json_double(j, "layer_norm_eps", 1e-5, 0, 1));
  check(!j.contains("adapter_attn_dim") || j["adapter_attn_dim"].is_null(), ErrorCode::unsupported,
        "audio encoder: adapter_attn_dim: adapters in each layer are not supported");
  check_together(c, "config.json");
  return c;
}

}  // namespace tachy
