#include "session/claim.h"

#include <algorithm>

#include "base/error.h"

namespace tachy {
namespace {

// Returns the parts of a stage, with the bytes of each. If a model has two experts, one is held at a time, or
// both if parts stay: `bytes` is then the sum of both.
std::vector<std::pair<Part, uint64_t>> parts_of_stage(const std::string& name, bool keeps, uint64_t bytes) {
  if (name == "text") return {{Part::text, bytes}};
  if (name == "image-embeds") return {{Part::image_encoder, bytes}};
  if (name == "speech") return {{Part::audio_encoder, bytes}};
  if (name == "image" || name == "video" || name == "motion") return {{Part::vae_encoder, bytes}};
  if (name == "decode") return {{Part::vae_decoder, bytes}};
  if (name == "denoise") return {{Part::transformer, bytes}, {Part::transformer_2, keeps ? 0 : bytes}};
  fail(ErrorCode::internal, "claim: which part does the stage '{}' hold?", name);
}

}  // namespace

Claim claim_of(const VideoPlan& plan, const Precision& precision, uint64_t base, Products vae) {
  Claim out{.peak = plan.peak_bytes - base, .host = plan.host_bytes};
  uint64_t most = 0, all = 0, arena = 0;
  for (const StagePlan& s : plan.stages) {
    // A part with streamed blocks is not shared.
    const uint64_t part = s.streamed > 0 ? 0 : s.part_bytes, own = s.weight_bytes - part;
    most = std::max(most, own + s.arena_bytes);
    all += own, arena = std::max(arena, s.arena_bytes);
    if (part == 0) continue;
    for (const auto& [which, bytes] : parts_of_stage(s.name, plan.keeps, part))
      out.parts[PartKey(which, precision, which == Part::transformer_2 ? s.adapters_2 : s.adapters, vae,
                        plan.keys_stay)] = bytes;
  }
  out.own = plan.shared_bytes - base + (plan.keeps ? all + arena : most);
  return out;
}

std::set<PartKey> parts_of(std::span<const Claim> claims) {
  std::set<PartKey> out;
  for (const Claim& c : claims)
    for (const auto& [key, bytes] : c.parts) out.insert(key);
  return out;
}

uint64_t bytes_together(std::span<const Claim> claims, const KeptBytes& kept) {
  uint64_t peaks = 0, own = 0;
  std::map<PartKey, uint64_t> parts;
  for (const Claim& c : claims) {
    peaks += c.peak, own += c.own;
    for (const auto& [key, bytes] : c.parts) parts[key] = std::max(parts[key], bytes);
  }
  for (const auto& [key, bytes] : parts) own += bytes;
  // A job that releases its parts one after the other never holds all of them, and one that finds them loaded
  // loads none.
  return std::min(peaks + kept({}), own + kept(parts_of(claims)));
}

}  // namespace tachy
