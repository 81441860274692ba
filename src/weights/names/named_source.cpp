// Detects how a file names its tensors, and gives them the names that models read (rename.h).
#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "weights/names/rename.h"
#include "weights/names/wrapper_names.h"
#include "weights/plain_values.h"
#include "weights/quantized/quantized_source.h"
#include "weights/quote.h"
#include "weights/tensor_range.h"

namespace tachy {
namespace {

constexpr std::array<std::string_view, 5> kPrefixes = {"model.diffusion_model.", "diffusion_model.",
                                                       "first_stage_model.", "transformer.", "model."};

std::shared_ptr<TensorSource> without_wrapper_names(const std::shared_ptr<TensorSource>& source) {
  const auto wrapped = [](const TensorSource::Entry& e) { return without_wrappers(e.name) != e.name; };
  if (std::ranges::none_of(source->entries(), wrapped)) return source;
  std::vector<TensorSource::Entry> entries(source->entries().begin(), source->entries().end());
  std::map<std::string_view, const TensorSource::Entry*> names;
  for (auto& entry : entries) {
    entry.name = without_wrappers(entry.name);
    const auto [other, added] = names.emplace(entry.name, &entry);
    check(added, ErrorCode::corrupt,
          "{}: tensors {} and {} are both {} without the names that PyTorch's wrappers put in: which is "
          "meant cannot be told",
          source->file_of(entry), in_quotes(other->second->name_in_file), in_quotes(entry.name_in_file),
          in_quotes(entry.name));
  }
  return source->with_entries(std::move(entries));
}

}  // namespace

bool is_original_dit_names(const TensorSource& source) {
  return source.has("head.head.weight") || source.has("blocks.0.self_attn.q.weight");
}
bool is_original_umt5_names(const TensorSource& source) {
  return source.has("token_embedding.weight") || source.has("blocks.0.attn.q.weight");
}
bool is_gguf_umt5_names(const TensorSource& source) {
  return source.has("token_embd.weight") || source.has("enc.blk.0.attn_q.weight");
}
bool is_original_vae21_names(const TensorSource& source) {
  return source.has("decoder.upsamples.0.residual.2.weight") ||
         source.has("encoder.downsamples.0.residual.2.weight");
}
bool is_original_vae22_names(const TensorSource& source) {
  return source.has("decoder.upsamples.0.upsamples.0.residual.2.weight") ||
         source.has("encoder.downsamples.0.downsamples.0.residual.2.weight");
}

std::shared_ptr<TensorSource> plain_source(const std::shared_ptr<TensorSource>& source) {
  return plain_values(dequantized(without_wrapper_names(source)));
}

std::shared_ptr<TensorSource> renamed(const std::shared_ptr<TensorSource>& source, RenameMap map) {
  std::vector<TensorSource::Entry> entries(source->entries().begin(), source->entries().end());
  for (auto& entry : entries) entry.name = map(entry.name);
  return source->with_entries(std::move(entries));
}

std::shared_ptr<TensorSource> without_prefix(const std::shared_ptr<TensorSource>& source,
                                             std::span<const std::string_view> prefixes) {
  for (const auto prefix : prefixes) {
    const auto has_prefix = [&](const TensorSource::Entry& e) {
      return e.name.size() > prefix.size() && e.name.starts_with(prefix);
    };
    if (std::none_of(source->entries().begin(), source->entries().end(), has_prefix)) continue;
    std::vector<TensorSource::Entry> entries(source->entries().begin(), source->entries().end());
    for (auto& entry : entries) {
      if (has_prefix(entry)) entry.name.erase(0, prefix.size());
    }
    return source->with_entries(std::move(entries));
  }
  return source;
}

std::shared_ptr<TensorSource> without_prefix(const std::shared_ptr<TensorSource>& source) {
  return without_prefix(source, kPrefixes);
}

namespace {

// Restores the patch embedding [dim, C, 1, 2, 2] in a file that allows only four dimensions, if the stored
// shape results from merging neighbouring dimensions. Wan's patches are 1x2x2; others need a config.
std::shared_ptr<TensorSource> with_patch_embedding(const std::shared_ptr<TensorSource>& source) {
  const auto *weight = source->find("patch_embedding.weight"), *bias = source->find("patch_embedding.bias");
  if (!weight || !bias || weight->dims.size() >= 5 || bias->dims.size() != 1) return source;
  const int64_t dim = bias->dims[0];
  const auto values = checked_bytes(weight->dims, DType::u8);
  if (!values || dim <= 0 || static_cast<int64_t>(*values) / 4 / dim == 0) return source;
  const std::vector<int64_t> dims = {dim, static_cast<int64_t>(*values) / 4 / dim, 1, 2, 2};
  if (!is_folded(dims, weight->dims)) return source;
  std::vector<TensorSource::Entry> entries(source->entries().begin(), source->entries().end());
  entries[static_cast<size_t>(weight - source->entries().data())].dims = dims;
  return source->with_entries(std::move(entries));
}

}  // namespace

NamedSource dit_source(const std::shared_ptr<TensorSource>& source) {
  const auto plain = with_patch_embedding(without_prefix(plain_source(source)));
  if (!is_original_dit_names(*plain)) return {plain, false};
  return {renamed(plain, dit_from_original), true};
}

NamedSource umt5_source(const std::shared_ptr<TensorSource>& source) {
  constexpr std::string_view kTied = "encoder.embed_tokens.weight";
  const auto plain = without_prefix(plain_source(source));
  if (is_original_umt5_names(*plain)) return {renamed(plain, umt5_from_original), true};
  if (is_gguf_umt5_names(*plain)) return {renamed(plain, umt5_from_gguf), false};
  if (!plain->has(kTied)) return {plain, false};
  // Files contain the tied embedding under either of these names, or under both.
  const bool both = plain->has("shared.weight");
  std::vector<TensorSource::Entry> entries;
  for (auto entry : plain->entries()) {
    if (entry.name == kTied) {
      if (both) continue;
      entry.name = "shared.weight";
    }
    entries.push_back(std::move(entry));
  }
  return {plain->with_entries(std::move(entries)), false};
}

NamedSource vae_source(const std::shared_ptr<TensorSource>& source) {
  const auto plain = without_prefix(plain_source(source));
  if (is_original_vae22_names(*plain)) return {renamed(plain, vae22_from_original), true};
  if (is_original_vae21_names(*plain)) return {renamed(plain, vae21_from_original), true};
  return {plain, false};
}

}  // namespace tachy
