#include "models/wan/branches/speakers/speakers_branch.h"

#include <algorithm>
#include <cmath>

#include "models/wan/branches/audio/audio.h"
#include "models/wan/dit.h"
#include "ops/elementwise/elementwise.h"
#include "ops/rope/rope.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

// Says to which speaker the tokens of batch items with two speakers look, one item after the other. Each
// block computes this anew.
struct Routes {
  static constexpr const char* kName = "routes";
  Tensor places;  // [items, cos and sin, tokens, head_dim/2] f32
  std::vector<Tensor> tensors() const { return {places}; }
};

nn::Attention heads_of(const WanConfig& c) {
  nn::Attention heads;
  heads.heads = c.num_heads, heads.head_dim = c.head_dim;
  return heads;
}

// Calls visit(batch item, its regions, its route) for each item that has two speakers.
template <class Visit>
void each_route(const WanBlockInput& in, Visit&& visit) {
  const auto* routes = in.more.find<Routes>();
  if (!routes) return;
  int64_t at = 0;
  const auto& speech = in.more.find<WanSpeech>()->items;
  for (int64_t b = 0; b < in.batch; ++b)
    if (const WanRegions& regions = speech[static_cast<size_t>(b)].regions; regions.defined())
      visit(b, regions, routes->places.select(0, at++));
}

class SpeakersBranch : public WanBranch {
 public:
  explicit SpeakersBranch(const WanConfig& c) : config_(c) {}

  bool load(const Scope&, int64_t, nn::ParamStore&) override { return true; }  // it has no parameters
  bool takes_codes() const override { return true; }
  const char* needs_all_tokens() const override { return nullptr; }

  void begin(const WanInput& in, WanBlockInput& block, Stream& stream) const override {
    const auto& speech = in.given.find<WanSpeech>()->items;
    const auto routed =
        std::ranges::count_if(speech, [](const WanAudio& audio) { return audio.regions.defined(); });
    if (routed > 0)
      block.more.put(Routes{stream.arena->f32({routed, 2, block.tokens, config_.head_dim / 2})});
  }

  void after_self_attention(const WanBlockInput& in, const nn::Attention::Projected& made,
                            Stream& stream) const override {
    const nn::Attention heads = heads_of(config_);
    each_route(in, [&](int64_t b, const WanRegions& regions, const Tensor& route) {
      const auto of_item = [&](const Tensor& t) { return heads.by_heads(t, in.batch).slice(0, b, b + 1); };
      const ArenaScope scope(*stream.arena);
      const Tensor shares = of_item(made.v);
      nn::attention_in_pieces({.q = of_item(made.q),
                               .k = first_frame(in, of_item(made.k), regions.values.dim(0), stream),
                               .v = heads.by_heads(regions.values, 1),
                               .scale = WanBlock::score_scale(config_, stream),
                               .out = shares},
                              stream);
      if (several(in)) return route_on_ranks(in, shares, regions.sizes, route, stream);
      ops::region_rope({.shares = shares.select(0, 0),
                        .sizes = regions.sizes,
                        .cos = route.select(0, 0),
                        .sin = route.select(0, 1)},
                       stream);
    });
  }

 private:
  static bool several(const WanBlockInput& in) { return in.comm && in.comm->size() > 1; }
  // Returns the keys [1, places, heads, head_dim] of the first frame, of which each rank has some in `k`.
  Tensor first_frame(const WanBlockInput& in, const Tensor& k, int64_t places, Stream& stream) const;
  // The places of a rank's tokens depend on the least and the most that any token has, so every rank makes those of
  // all tokens and takes its own.
  void route_on_ranks(const WanBlockInput& in, const Tensor& shares, const Tensor& sizes, const Tensor& route,
                      Stream& stream) const;

  WanConfig config_;
};

Tensor SpeakersBranch::first_frame(const WanBlockInput& in, const Tensor& k, int64_t places,
                                   Stream& stream) const {
  if (!several(in)) return k.slice(1, 0, places);
  const int64_t own = k.dim(1) / in.spread.frames;
  const Tensor mine = stream.arena->tensor(k.dtype, {1, own, config_.dim()});
  ops::copy({.x = k.slice(1, 0, own), .y = mine.view({1, own, k.dim(2), k.dim(3)})}, stream);
  return runtime::tokens_on_all(*in.comm, {.tokens = places}, mine, stream)
      .view({1, places, k.dim(2), k.dim(3)});
}

void SpeakersBranch::route_on_ranks(const WanBlockInput& in, const Tensor& shares, const Tensor& sizes,
                                    const Tensor& route, Stream& stream) const {
  constexpr int64_t kRegions = ops::RegionRopeArgs::kRegions;
  const int64_t own = shares.dim(1), heads = shares.dim(2), half = route.dim(2), all = in.spread.tokens;
  const Tensor mine = stream.arena->tensor(shares.dtype, {1, own, heads * kRegions});
  ops::copy({.x = shares.slice(3, 0, kRegions), .y = mine.view({1, own, heads, kRegions})}, stream);
  const Tensor whole = runtime::tokens_on_all(*in.comm, in.spread, mine, stream).view({all, heads, kRegions}),
               made = stream.arena->f32({2, all, half});
  ops::region_rope({.shares = whole, .sizes = sizes, .cos = made.select(0, 0), .sin = made.select(0, 1)},
                   stream);
  for (int64_t i = 0; i < 2; ++i)
    copy_bytes(runtime::own_tokens(in.comm, in.spread, made.slice(0, i, i + 1), stream).select(0, 0),
               route.select(0, i), stream);
}

}  // namespace

std::unique_ptr<WanBranch> make_speakers_branch(const Scope&, const WanConfig& c, nn::ParamStore&) {
  return c.audio_branch() ? std::make_unique<SpeakersBranch>(c) : nullptr;
}

void turn_by_routes(const WanBlockInput& in, const WanConfig& config, const Tensor& q, Stream& stream) {
  const nn::Attention heads = heads_of(config);
  each_route(in, [&](int64_t b, const WanRegions&, const Tensor& route) {
    const Tensor queries = heads.by_heads(q, in.batch).slice(0, b, b + 1);
    ops::rope({.x = queries, .cos = route.select(0, 0), .sin = route.select(0, 1), .y = queries}, stream);
  });
}

WanRegions make_regions(const WanDit& dit, std::span<const uint8_t> masks, nn::ParamStore& store) {
  constexpr int64_t kRegions = ops::RegionRopeArgs::kRegions;
  const WanConfig& c = dit.config();
  const auto tokens = static_cast<int64_t>(masks.size()) / kRegions;
  require(tokens > 0 && tokens * kRegions == static_cast<int64_t>(masks.size()),
          "transformer: expected {} masks of regions, got {} values", kRegions, masks.size());
  check(c.head_dim >= kRegions, ErrorCode::unsupported,
        "transformer: two speakers need heads of at least {} channels, this model's have {}", kRegions,
        c.head_dim);
  Stream& stream = store.stream();
  const ArenaScope scope(*stream.arena);
  const Tensor made = stream.arena->f32({tokens, c.num_heads, c.head_dim});
  WanRegions out{.values = store.allocate(stream.precision.activation, {tokens, c.dim()})};
  float sizes[kRegions] = {};
  for (int64_t i = 0; i < kRegions * tokens; ++i)
    if (masks[static_cast<size_t>(i)]) ++sizes[i / tokens];
  out.sizes = store.uploaded(sizes, DType::f32, {kRegions});
  make_on_host(stream, {made}, [&](Stream& host, std::span<const Tensor> to) {
    if (host.measuring()) return;
    auto* values = to[0].as<float>();
    std::fill_n(values, to[0].numel(), 0.0f);
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < c.num_heads; ++h, values += c.head_dim)
        for (int64_t m = 0; m < kRegions; ++m)
          values[m] = masks[static_cast<size_t>(m * tokens + t)] ? 1.0f : 0.0f;
  });
  ops::copy({.x = made.view({tokens, c.dim()}), .y = out.values}, stream);
  return out;
}

void place_speakers(const WanConfig& c, const Tensor& kv, int64_t each, Stream& stream) {
  const int64_t half = c.head_dim / 2, rows = kv.dim(1);
  const ArenaScope scope(*stream.arena);
  const Tensor cos = stream.arena->f32({rows, half}), sin = stream.arena->f32({rows, half});
  make_on_host(stream, {cos, sin}, [&](Stream& host, std::span<const Tensor> to) {
    if (host.measuring()) return;
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t i = 0; i < half; ++i) {
        const double angle =
            ops::RegionRopeArgs::kOfKeys[t / each % kMostSpeakers] *
            std::pow(ops::RegionRopeArgs::kTheta, -static_cast<double>(i) / static_cast<double>(half));
        to[0].as<float>()[t * half + i] = static_cast<float>(std::cos(angle));
        to[1].as<float>()[t * half + i] = static_cast<float>(std::sin(angle));
      }
  });
  for (int64_t i = 0; i < kv.dim(0); ++i) {
    const Tensor keys = heads_of(c).by_heads(kv.select(0, i).slice(1, 0, c.dim()), 1);
    ops::rope({.x = keys, .cos = cos, .sin = sin, .y = keys}, stream);
  }
}

}  // namespace tachy
