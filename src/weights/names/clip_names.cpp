// Gives CLIP's vision model the names of Hugging Face's files, which models read. It knows three namings:
//   vision_model.embeddings.class_embedding   CLIPVisionModelWithProjection, CLIPModel, ComfyUI's clip_vision_h
//   embeddings.class_embedding                CLIPVisionModel of transformers 5
//   visual.cls_embedding                      the original's checkpoint of both towers, or of the image tower alone
// The original stores q, k and v of a layer in one matrix [3·C, C], one below the other; they become three
// entries.
#include "weights/names/rename.h"

namespace tachy {
namespace {

using Entry = TensorSource::Entry;

constexpr std::string_view kPrefix = "vision_model.";

struct ClipRule {
  std::string_view from, to;
};
constexpr ClipRule kTop[] = {
    {"patch_embedding.", "embeddings.patch_embedding."},
    {"pre_norm.", "pre_layrnorm."},
    {"post_norm.", "post_layernorm."},
};
constexpr ClipRule kLayer[] = {
    {"norm1.", "layer_norm1."},
    {"attn.to_qkv.", "self_attn.qkv."},
    {"attn.proj.", "self_attn.out_proj."},
    {"norm2.", "layer_norm2."},
    {"mlp.0.", "mlp.fc1."},
    {"mlp.2.", "mlp.fc2."},
};

// A range of rows of a derived tensor.
class SomeRows final : public DerivedTensor {
 public:
  SomeRows(std::shared_ptr<const DerivedTensor> whole, int64_t first)
      : whole_(std::move(whole)), first_(first) {}
  std::string_view encoding() const override { return whole_->encoding(); }
  void decode(int64_t first, const Tensor& rows) const override { whole_->decode(first_ + first, rows); }

 private:
  std::shared_ptr<const DerivedTensor> whole_;
  int64_t first_;
};

// Turns "transformer.3.attn.proj.weight" into "encoder.layers.3.self_attn.out_proj.weight"; "" if unknown.
std::string from_original(std::string_view name) {
  for (const auto& [from, to] : kTop)
    if (name.starts_with(from)) return std::string(to) + std::string(name.substr(from.size()));
  constexpr std::string_view layers = "transformer.";
  if (!name.starts_with(layers)) return {};
  const size_t dot = name.find('.', layers.size());
  if (dot == name.npos) return {};
  const std::string_view index = name.substr(layers.size(), dot - layers.size()), rest = name.substr(dot + 1);
  for (const auto& [from, to] : kLayer)
    if (rest.starts_with(from))
      return "encoder.layers." + std::string(index) + "." + std::string(to) +
             std::string(rest.substr(from.size()));
  return {};
}

// Removes leading dimensions of 1 from tables and vectors: [1, 257, 1280] and [1, 1, 1280].
void squeeze(std::vector<int64_t>& dims, size_t rank) {
  while (dims.size() > rank && dims.front() == 1) dims.erase(dims.begin());
}

// Splits one matrix or bias [3·C, …] into the rows of q, k and v. If its shape cannot be divided, it is kept
// for the report of missing and unused tensors.
void split(const Entry& entry, std::vector<Entry>& out) {
  const size_t at = entry.name.find(".qkv.");
  if (entry.dims.empty() || entry.dims[0] <= 0 || entry.dims[0] % 3 != 0) {
    out.push_back(entry);
    return;
  }
  constexpr std::string_view names[] = {".q_proj.", ".k_proj.", ".v_proj."};
  for (int64_t i = 0; i < 3; ++i) {
    Entry part = entry;
    part.name = entry.name.substr(0, at) + std::string(names[i]) + entry.name.substr(at + 5);
    part.dims[0] = entry.dims[0] / 3, part.bytes = entry.bytes / 3;
    if (entry.derived)
      part.derived = std::make_shared<SomeRows>(entry.derived, i * part.dims[0]);
    else if (entry.data)
      part.data = static_cast<const char*>(entry.data) + static_cast<uint64_t>(i) * part.bytes;
    out.push_back(std::move(part));
  }
}

std::vector<Entry> original_entries(const TensorSource& source, std::string_view tower) {
  std::vector<Entry> out;
  for (Entry entry : source.entries()) {
    if (!entry.name.starts_with(tower)) {
      out.push_back(std::move(entry));
      continue;
    }
    const std::string_view rest = std::string_view(entry.name).substr(tower.size());
    std::string name;
    if (rest == "cls_embedding")
      name = "embeddings.class_embedding", squeeze(entry.dims, 1);
    else if (rest == "pos_embedding")
      name = "embeddings.position_embedding.weight", squeeze(entry.dims, 2);
    else
      name = from_original(rest);
    // All other tensors (those of the head) get the tower's prefix, even if the file omits it.
    entry.name = name.empty() ? "visual." + std::string(rest) : std::string(kPrefix) + name;
    if (name.find(".qkv.") != name.npos)
      split(entry, out);
    else
      out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace

NamedSource clip_vision_source(const std::shared_ptr<TensorSource>& source) {
  const auto plain = plain_source(source);
  for (const std::string_view tower : {"visual.", ""})
    if (plain->has(std::string(tower) + "cls_embedding"))
      return {plain->with_entries(original_entries(*plain, tower)), true};
  if (!plain->has("embeddings.class_embedding")) return {plain, false};
  std::vector<Entry> entries(plain->entries().begin(), plain->entries().end());
  for (Entry& entry : entries)
    for (const std::string_view part : {"embeddings.", "encoder.", "pre_layrnorm.", "post_layernorm."})
      if (entry.name.starts_with(part)) {
        entry.name.insert(0, kPrefix);
        break;
      }
  return {plain->with_entries(std::move(entries)), false};
}

}  // namespace tachy
