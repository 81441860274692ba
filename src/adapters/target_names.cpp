#include "adapters/target_names.h"

#include <algorithm>

#include "weights/names/wrapper_names.h"

namespace tachy {
namespace {

// The prefixes that trainers put before a layer's name, with underscores for dots. A prefix comes after
// longer ones that begin with it. Several may be combined, as in base_model.model.transformer.
constexpr std::string_view kPrefixes[] = {
    "base_model_model_",
    "model_diffusion_model_",
    "diffusion_model_",
    "transformer_1_",
    "transformer_2_",
    "transformer_",
    "pipe_dit2_",
    "pipe_dit_",
    "dit_",
    "lora_unet__",
    "lora_unet_",
    "lora_transformer_1_",
    "lora_transformer_2_",
    "lora_transformer_",
    "lycoris_",
    "unet_",
    "text_encoder_",
    "lora_te1_",
    "lora_te_",
    "model_",
};
constexpr int kMostPrefixes = 4;

std::string with_underscores(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '.', '_');
  return out;
}

// Removes `end` from the end of `name`.
bool take_end(std::string_view& name, std::string_view end) {
  if (name.size() <= end.size() || !name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  return true;
}

// diffusers' first adapters also name the processor of the attention: attn1.processor.to_q.
std::string without_processor(std::string_view stem) {
  constexpr std::string_view kProcessor = ".processor";
  std::string out(stem);
  if (const size_t at = out.find(kProcessor); at != std::string::npos) out.erase(at, kProcessor.size());
  return out;
}

}  // namespace

TargetNames::TargetNames(const TensorSource& source, Respell respell) {
  for (const TensorSource::Entry& entry : source.entries()) {
    const std::string other = respell(entry.name);
    std::string_view name = entry.name, second = other;
    const bool weight = take_end(name, ".weight"), bias = !weight && take_end(name, ".bias");
    if (weight || bias) take_end(second, weight ? ".weight" : ".bias");
    const std::string target(name);
    AdapterTarget& made = targets_[target];
    made.name = target;
    (bias ? made.bias : made.weight) = &entry;
    add_name(name, target);
    add_name(second, target);
    if (take_end(name, ".to_out.0")) add_name(std::string(name) + ".to_out", target);
  }
  // A block's table is addressed by the block, which is not a tensor itself.
  for (const TensorSource::Entry& entry : source.entries()) {
    const std::string other = respell(entry.name);
    for (std::string_view name : {std::string_view(entry.name), std::string_view(other)}) {
      if (!take_end(name, ".scale_shift_table") && !take_end(name, ".modulation")) continue;
      AdapterTarget& made = targets_[std::string(name)];
      made.name = name, made.modulation = &entry;
      add_name(name, std::string(name));
    }
  }
}

void TargetNames::add_name(std::string_view spelled, const std::string& target) {
  const auto [at, added] = names_.emplace(with_underscores(spelled), Named{target});
  if (!added && at->second.target != target) at->second.ambiguous = true;
}

TargetNames::Found TargetNames::find(std::string_view stem) const {
  const std::string name = without_underscored_wrappers(with_underscores(without_processor(stem)));
  std::string_view rest = name;
  for (int taken = 0; taken <= kMostPrefixes; ++taken) {
    if (const auto found = names_.find(rest); found != names_.end())
      return {.target = &targets_.find(found->second.target)->second,
              .ambiguous = found->second.ambiguous,
              .prefix = stem.substr(0, stem.size() - std::min(stem.size(), rest.size()))};
    const auto prefix = std::ranges::find_if(
        kPrefixes, [&](std::string_view p) { return rest.size() > p.size() && rest.starts_with(p); });
    if (prefix == std::end(kPrefixes)) break;
    rest.remove_prefix(prefix->size());
  }
  return {};
}

}  // namespace tachy
