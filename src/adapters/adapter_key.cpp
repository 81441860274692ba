#include "adapters/adapter_key.h"

namespace tachy {
namespace {

using Role = AdapterRole;

struct Suffix {
  std::string_view text;
  Role role;
};

constexpr Suffix kSuffixes[] = {
    {".lora_A.weight", Role::down},
    {".lora_B.weight", Role::up},
    {".lora_A", Role::down},
    {".lora_B", Role::up},
    {".lora_B.bias", Role::up_bias},
    {".lora_down.weight", Role::down},
    {".lora_up.weight", Role::up},
    {".lora_mid.weight", Role::mid},
    {".lora_up.bias", Role::up_bias},
    {"_lora.down.weight", Role::down},
    {"_lora.up.weight", Role::up},
    {".lora.down.weight", Role::down},
    {".lora.up.weight", Role::up},
    {".lora_linear_layer.down.weight", Role::down},
    {".lora_linear_layer.up.weight", Role::up},
    {".alpha", Role::alpha},
    {".dora_scale", Role::magnitude},
    {".lora_magnitude_vector.weight", Role::magnitude},
    {".lora_magnitude_vector", Role::magnitude},
    {".diff", Role::diff},
    {".diff_b", Role::diff_bias},
    {".diff_m", Role::diff_modulation},
    {".w_norm", Role::diff},
    {".b_norm", Role::diff_bias},
    {".set_weight", Role::set_weight},
    {".hada_w1_a", Role::hada_w1_a},
    {".hada_w1_b", Role::hada_w1_b},
    {".hada_w2_a", Role::hada_w2_a},
    {".hada_w2_b", Role::hada_w2_b},
    {".lokr_w1", Role::lokr_w1},
    {".lokr_w1_a", Role::lokr_w1_a},
    {".lokr_w1_b", Role::lokr_w1_b},
    {".lokr_w2", Role::lokr_w2},
    {".lokr_w2_a", Role::lokr_w2_a},
    {".lokr_w2_b", Role::lokr_w2_b},
    {".hada_t1", Role::unsupported},
    {".hada_t2", Role::unsupported},
    {".lokr_t2", Role::unsupported},
    {".lora_A.bias", Role::unsupported},
    {".oft_blocks", Role::unsupported},
    {".oft_diag", Role::unsupported},
    {".rescale", Role::unsupported},
    {".a1.weight", Role::glora_a1},
    {".a2.weight", Role::glora_a2},
    {".b1.weight", Role::glora_b1},
    {".b2.weight", Role::glora_b2},
    {".bm.weight", Role::unsupported},
    {".on_input", Role::unsupported},
    {".reshape_weight", Role::unsupported},
    {".lora_embedding_A", Role::unsupported},
    {".lora_embedding_B", Role::unsupported},
};

// A key without the adapter's name that PEFT inserts: .lora_A.default.weight.
struct Named {
  std::string_view part;
  Role weight, bias;
};
constexpr Named kNamed[] = {
    {".lora_A.", Role::down, Role::unsupported},
    {".lora_B.", Role::up, Role::up_bias},
    {".lora_magnitude_vector.", Role::magnitude, Role::unsupported},
};

AdapterKey parse_named(std::string_view key) {
  for (const auto& [part, weight, bias] : kNamed) {
    const size_t at = key.rfind(part);
    if (at == std::string_view::npos || at == 0) continue;
    const std::string_view rest = key.substr(at + part.size());  // "default.weight", or only "default"
    const size_t dot = rest.find('.');
    const std::string_view last = dot == std::string_view::npos ? "weight" : rest.substr(dot + 1);
    if (rest.empty() || dot == 0 || (last != "weight" && last != "bias")) continue;
    return {key.substr(0, at), last == "weight" ? weight : bias, key.substr(at)};
  }
  return {key, Role::none, {}};
}

}  // namespace

AdapterKey parse_adapter_key(std::string_view key) {
  for (const auto& [text, role] : kSuffixes)
    if (key.size() > text.size() && key.ends_with(text)) {
      const std::string_view stem = key.substr(0, key.size() - text.size());
      return {stem, role, key.substr(stem.size())};
    }
  return parse_named(key);
}

}  // namespace tachy
