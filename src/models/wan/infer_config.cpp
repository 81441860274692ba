#include "models/wan/infer_config.h"

#include <charconv>

#include "base/error.h"
#include "models/wan/relatives.h"

namespace tachy {
namespace {

constexpr const char* kPart = "transformer";  // the name that messages use

constexpr int64_t kPublishedHead = 128;
constexpr const char* kEmbedder = "condition_embedder.";

int64_t in_range(const TensorSource& source, const char* option, int64_t value, int64_t least, int64_t most) {
  check(value >= least && value <= most, ErrorCode::corrupt,
        "{}: its tensors say that {} is {}, expected {} to {}", source.files_text(), option, value, least,
        most);
  return value;
}

// Counts the blocks, which are numbered from 0 without a gap.
int64_t count_blocks(const TensorSource& source) {
  int64_t count = 0, last = -1;
  while (source.has(fmt::format("blocks.{}.attn1.to_q.weight", count))) ++count;
  for (const auto& entry : source.entries()) {
    if (!entry.name.starts_with("blocks.")) continue;
    int64_t index = -1;
    const char* end = entry.name.data() + entry.name.size();
    std::from_chars(entry.name.data() + 7, end, index);
    last = std::max(last, index);
  }
  check(last < count, ErrorCode::corrupt,
        "{}: block {} of the transformer has no attn1.to_q.weight, but block {} is there",
        source.files_text(), count, last);
  return in_range(source, "num_layers", count, 1, 4096);
}

constexpr const char* kTextWeight = "condition_embedder.text_embedder.linear_1.weight";
constexpr const char* kImageNorm = "condition_embedder.image_embedder.norm1.weight";

// Every published model has text, except for those whose only context is the image.
bool has_text(const TensorSource& s) { return s.has(kTextWeight) || !s.has(kImageNorm); }

// Throws for a file that is given in the place of a model and holds changes of one.
void refuse_adapter(const TensorSource& s) {
  for (const auto& entry : s.entries())
    for (const char* part : {".lora_", ".hada_w", ".lokr_w"})
      require(entry.name.find(part) == entry.name.npos,
              "{}: this is an adapter (LoRA) and no model; give it as `loras`", s.files_text());
}

// Finds all options except the heads; head_dim is then 0 and num_heads the width.
WanConfig without_heads(const TensorSource& s) {
  if (!is_wan_transformer(s)) refuse_adapter(s);
  check(is_wan_transformer(s), ErrorCode::not_found,
        "{}: expected a Wan transformer, found no tensors 'patch_embedding.weight' and "
        "'blocks.0.attn1.to_q.weight' (originally 'blocks.0.self_attn.q.weight') in it",
        s.files_text());
  refuse_relatives(s);
  WanConfig c;
  const auto& patch = s.dims_of(kPart, "patch_embedding.weight", 5);
  c.num_heads = in_range(s, "the width", patch[0], 2, 1 << 20), c.head_dim = 0;
  c.in_channels = in_range(s, "in_channels", patch[1], 1, 4096);
  c.patch_t = in_range(s, "patch_size", patch[2], 1, 16);
  c.patch_h = in_range(s, "patch_size", patch[3], 1, 16);
  c.patch_w = in_range(s, "patch_size", patch[4], 1, 16);
  const int64_t rows = s.dims_of(kPart, "proj_out.weight", 2)[0], area = c.patch_t * c.patch_h * c.patch_w;
  check(rows % area == 0, ErrorCode::corrupt, "{}: proj_out has {} rows, expected a multiple of {}",
        s.files_text(), rows, area);
  c.out_channels = in_range(s, "out_channels", rows / area, 1, 4096);
  const std::string condition = kEmbedder;
  c.text_dim = has_text(s) ? in_range(s, "text_dim", s.dims_of(kPart, kTextWeight, 2)[1], 1, 1 << 16) : 0;
  c.freq_dim = in_range(s, "freq_dim", s.dims_of(kPart, condition + "time_embedder.linear_1.weight", 2)[1], 2,
                        1 << 16);
  check(c.freq_dim % 2 == 0, ErrorCode::unsupported, "{}: freq_dim {} must be even", s.files_text(),
        c.freq_dim);
  c.num_layers = count_blocks(s);
  c.ffn_dim = in_range(s, "ffn_dim", s.dims_of(kPart, "blocks.0.ffn.net.0.proj.weight", 2)[0], 1, 1 << 18);
  c.cross_attn_norm = s.has("blocks.0.norm2.weight");
  c.actions = WanActionConfig::from_tensors(s, c.num_layers, patch[0]);
  c.vace = WanVaceConfig::from_tensors(s, c.num_layers);
  if (s.has(kImageNorm))
    c.image_dim = in_range(s, "image_dim", s.dims_of(kPart, kImageNorm, 1)[0], 1, 1 << 16);
  if (s.has(condition + "image_embedder.pos_embed"))
    c.pos_embed_seq_len = in_range(
        s, "pos_embed_seq_len", s.dims_of(kPart, condition + "image_embedder.pos_embed", 3)[1], 1, 1 << 16);
  return c;
}

// All of Wan's models normalise q and k over the whole width; a norm per head means another model.
void check_qk_norm(const TensorSource& s, int64_t width) {
  const int64_t norm = s.dims_of(kPart, "blocks.0.attn1.norm_q.weight", 1)[0];
  check(norm == width, ErrorCode::unsupported,
        "{}: blocks.0.attn1.norm_q has {} values, expected {} (one norm over all heads)", s.files_text(),
        norm, width);
}

}  // namespace

bool is_wan_transformer(const TensorSource& source) {
  return source.has("patch_embedding.weight") && source.has("blocks.0.attn1.to_q.weight");
}

WanConfig infer_wan_config(const TensorSource& source, Sinusoid sinusoid) {
  WanConfig c = without_heads(source);
  const int64_t width = c.num_heads;
  check_qk_norm(source, width);
  check(
      width % kPublishedHead == 0, ErrorCode::unsupported,
      "{}: the number of heads cannot be told from the tensors (a width of {} is no multiple of {}, which "
      "Wan's heads have): put the model's config.json beside the file, under the file's name with the ending "
      ".json, or into its header's metadata as \"config\"",
      source.files_text(), width, kPublishedHead);
  c.actions.validate();
  c.num_heads = width / kPublishedHead, c.head_dim = kPublishedHead;
  c.sinusoid = sinusoid;
  return c;
}

void correct_by_tensors(WanConfig& config, const TensorSource& source) {
  if (!source.has(kImageNorm))
    config.image_dim = config.pos_embed_seq_len = 0;
  else
    config.image_dim = source.dims_of(kPart, kImageNorm, 1)[0];
  if (!has_text(source)) config.text_dim = 0;
}

TrainedSparse find_trained_sparse(const TensorSource& source) {
  if (source.has("blocks.0.to_gate_compress.weight")) return TrainedSparse::cubes;
  if (source.has("blocks.0.attn1.proj_l.weight")) return TrainedSparse::linear;
  return TrainedSparse::none;
}

void check_wan_config(const WanConfig& config, const TensorSource& source) {
  const WanConfig found = without_heads(source);
  check_qk_norm(source, found.num_heads);
  const auto same = [&](const char* option, int64_t said, int64_t is) {
    check(said == is, ErrorCode::corrupt, "{}: its config says {} {}, its tensors {}", source.files_text(),
          option, said, is);
  };
  same("width (heads times their size)", config.dim(), found.num_heads);
  same("in_channels", config.in_channels, found.in_channels);
  same("out_channels", config.out_channels, found.out_channels);
  same("patch_size", config.patch_t, found.patch_t);
  same("patch_size", config.patch_h, found.patch_h);
  same("patch_size", config.patch_w, found.patch_w);
  same("text_dim", config.text_dim, found.text_dim);
  same("freq_dim", config.freq_dim, found.freq_dim);
  same("ffn_dim", config.ffn_dim, found.ffn_dim);
  same("num_layers", config.num_layers, found.num_layers);
  same("cross_attn_norm", config.cross_attn_norm, found.cross_attn_norm);
  same("image_dim", config.image_dim, found.image_dim);
  same("pos_embed_seq_len", config.pos_embed_seq_len, found.pos_embed_seq_len);
  same("the number of vace_layers", static_cast<int64_t>(config.vace.layers.size()),
       static_cast<int64_t>(found.vace.layers.size()));
  if (config.vace.present()) same("vace_in_channels", config.vace.in_channels, found.vace.in_channels);
  check(config.actions.blocks == found.actions.blocks, ErrorCode::corrupt,
        "{}: its config says that {} transformer blocks have an action module, its tensors {}, or others",
        source.files_text(), config.actions.blocks.size(), found.actions.blocks.size());
}

}  // namespace tachy
