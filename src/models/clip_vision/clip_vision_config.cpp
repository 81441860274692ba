#include "models/clip_vision/clip_vision_config.h"

#include <map>
#include <tuple>

#include "base/error.h"
#include "weights/json_file.h"

namespace tachy {
namespace {

constexpr const char* kPatches = "vision_model.embeddings.patch_embedding.weight";
constexpr const char* kPositions = "vision_model.embeddings.position_embedding.weight";
constexpr const char* kClass = "vision_model.embeddings.class_embedding";
constexpr const char* kLayer = "vision_model.encoder.layers.{}.{}";
constexpr int64_t kMostTokens = 1 << 16;

const std::vector<int64_t>& dims_of(const TensorSource& source, const std::string& name, size_t rank) {
  const TensorSource::Entry* entry = source.find(name);
  check(entry && entry->dims.size() == rank, ErrorCode::not_found,
        "image encoder: no tensor '{}' of {} dimensions in {}", name, rank, source.files_text());
  return entry->dims;
}

ops::Activation activation_of(const std::string& name) {
  if (name == "gelu") return ops::Activation::gelu_erf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return ops::Activation::gelu_tanh;
  fail(ErrorCode::unsupported,
       "image encoder: hidden_act '{}' is not supported, only gelu, gelu_new and gelu_pytorch_tanh; the "
       "vision model of Wan's (ViT-H/14) has gelu",
       name);
}

// Checks options that depend on one another. `of` names their source in messages.
void check_together(const ClipVisionConfig& c, const std::string& of) {
  check(c.hidden_size % c.num_heads == 0, ErrorCode::corrupt,
        "image encoder: {}: hidden_size {} is not a multiple of num_attention_heads {}", of, c.hidden_size,
        c.num_heads);
  check(c.image_size % c.patch_size == 0, ErrorCode::unsupported,
        "image encoder: {}: image_size {} is not a multiple of patch_size {}", of, c.image_size,
        c.patch_size);
  check(c.tokens() <= kMostTokens, ErrorCode::corrupt,
        "image encoder: {}: image_size {} and patch_size {} make {} tokens, expected at most {}", of,
        c.image_size, c.patch_size, c.tokens(), kMostTokens);
}

// Tells the number of heads of the published models by their width: OpenAI's B and L, LAION's H and g, bigG.
int64_t heads_of(const TensorSource& source, int64_t hidden_size) {
  static const std::map<int64_t, int64_t> known = {{768, 12}, {1024, 16}, {1280, 16}, {1408, 16}, {1664, 16}};
  const auto found = known.find(hidden_size);
  check(found != known.end(), ErrorCode::not_found,
        "image encoder: {}: shapes do not tell how many heads a model of width {} has; a config.json beside "
        "the file would (num_attention_heads)",
        source.files_text(), hidden_size);
  return found->second;
}

}  // namespace

bool is_clip_vision(const TensorSource& source) { return source.has(kPatches) && source.has(kClass); }

ClipVisionConfig ClipVisionConfig::from_tensors(const TensorSource& source) {
  ClipVisionConfig c;
  check(is_clip_vision(source), ErrorCode::not_found, "image encoder: {} holds no CLIP vision model",
        source.files_text());
  const auto& patches = dims_of(source, kPatches, 4);
  const auto& positions = dims_of(source, kPositions, 2);
  c.hidden_size = patches[0], c.patch_size = patches[2];
  c.intermediate_size = dims_of(source, fmt::format(kLayer, 0, "mlp.fc1.weight"), 2)[0];
  c.num_layers = 0;
  while (source.has(fmt::format(kLayer, c.num_layers, "layer_norm1.weight"))) ++c.num_layers;
  int64_t side = 1;
  while (side < 256 && side * side + 1 < positions[0]) ++side;
  const std::tuple<const char*, int64_t, int64_t, int64_t> ranges[] = {
      {"hidden_size", c.hidden_size, 1, 1 << 16},
      {"intermediate_size", c.intermediate_size, 1, 1 << 18},
      {"patch_size", c.patch_size, 1, 4096},
      {"the number of positions", positions[0], side * side + 1, side * side + 1}};
  for (const auto& [option, value, least, most] : ranges)
    check(value >= least && value <= most, ErrorCode::corrupt,
          "image encoder: {}: its tensors say that {} is {}, expected {} to {}", source.files_text(), option,
          value, least, most);
  c.image_size = side * c.patch_size;
  c.num_heads = heads_of(source, c.hidden_size);
  check_together(c, source.files_text());
  return c;
}

ClipVisionConfig ClipVisionConfig::from_json(const nlohmann::json& config) {
  const auto own = config.find("vision_config");  // the key in the file of a whole CLIPModel
  const nlohmann::json& j = own != config.end() && own->is_object() ? *own : config;
  ClipVisionConfig c;
  c.hidden_size = json_int(j, "hidden_size", 768, 1, 1 << 16);
  c.intermediate_size = json_int(j, "intermediate_size", 3072, 1, 1 << 18);
  c.num_layers = json_int(j, "num_hidden_layers", 12, 1, 1024);
  c.num_heads = json_int(j, "num_attention_heads", 12, 1, 1024);
  c.image_size = json_int(j, "image_size", 224, 1, 4096);
  c.patch_size = json_int(j, "patch_size", 32, 1, 4096);
  c.eps = static_cast<float>(json_double(j, "layer_norm_eps", 1e-5, 0, 1));
  c.act = activation_of(json_string(j, "hidden_act", "quick_gelu"));
  const int64_t channels = json_int(j, "num_channels", 3, 1, 1 << 16);
  check(channels == 3, ErrorCode::unsupported, "image encoder: num_channels {} is not supported, only 3",
        channels);
  check_together(c, "config.json");
  return c;
}

}  // namespace tachy
