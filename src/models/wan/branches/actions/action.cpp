#include "models/wan/branches/actions/action.h"

#include <cmath>

#include "ops/attention/attention.h"
#include "ops/elementwise/elementwise.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"

namespace tachy {
namespace {

constexpr float kMlpNormEps = 1e-5f, kHeadNormEps = 1e-6f;

// Views the beginning of `t` with other dims and strides.
Tensor strided(const Tensor& t, std::initializer_list<int64_t> dims, std::initializer_list<int64_t> strides) {
  Tensor out(t.data, t.dtype, dims, t.device);
  std::copy(strides.begin(), strides.end(), out.strides);
  return out;
}

// A tensor [rows, heads·width] to be normed and turned, and the destination: the tensor itself, or a place in
// a ring.
struct Turned {
  Tensor from, to;
};

// Norms each head of q, and of k if it is given, and turns it by the frame of its row. Places are the batch:
// the frames of a place are `places` rows apart.
void norm_and_turn(const Turned& q, const Turned& k, const Tensor& cos, const Tensor& sin, Stream& stream) {
  const int64_t frames = cos.dim(0), heads = cos.dim(1), width = 2 * cos.dim(2),
                places = q.from.dim(0) / frames;
  const auto by_places = [&](const Tensor& t) {
    if (!t.defined()) return t;
    return strided(t, {places, frames, heads * width}, {t.stride(0), places * t.stride(0), 1});
  };
  ops::qk_norm_rope({.x = by_places(q.from),
                     .eps = kHeadNormEps,
                     .heads = static_cast<int>(heads),
                     .norm_heads = true,
                     .cos = cos.select(1, 0),  // all heads turn by the same angles
                     .sin = sin.select(1, 0),
                     .y = by_places(q.to),
                     .x2 = by_places(k.from),
                     .y2 = by_places(k.to)},
                    stream);
}

float scale_of(int64_t width) { return 1.0f / std::sqrt(static_cast<float>(width)); }

}  // namespace

WanAction::WanAction(const Scope& scope, const WanActionConfig& c, int64_t dim, nn::ParamStore& store)
    : config_(c) {
  const auto norms = [&](const char* q, const char* k, int64_t width) {  // in the file, but not used
    for (const char* name : {q, k}) (void)scope.sub(name).optional("weight", {width});
  };
  if (c.mouse_dim > 0) {
    const int64_t wide = c.mouse_hidden;
    mouse_up_ = nn::Linear(scope.sub("mouse_mlp.0"), store, dim + c.past() * c.mouse_dim, wide);
    mouse_down_ = nn::Linear(scope.sub("mouse_mlp.2"), store, wide, wide);
    mouse_norm_ = nn::Norm::layer(scope.sub("mouse_mlp.3"), store, wide, kMlpNormEps);
    mouse_qkv_ = nn::Linear(scope.sub("t_qkv"), store, wide, 3 * wide, false);
    mouse_out_ = nn::Linear(scope.sub("proj_mouse"), store, wide, dim, false);
    norms("img_attn_q_norm", "img_attn_k_norm", wide / c.heads);
  }
  key_up_ = nn::Linear(scope.sub("keyboard_embed.0"), store, c.keyboard_dim, c.hidden);
  key_down_ = nn::Linear(scope.sub("keyboard_embed.2"), store, c.hidden, c.hidden);
  kv_ = nn::Linear(scope.sub("keyboard_attn_kv"), store, c.past() * c.hidden, 2 * c.keyboard_hidden, false);
  q_ = nn::Linear(scope.sub("mouse_attn_q"), store, dim, c.keyboard_hidden, false);
  out_ = nn::Linear(scope.sub("proj_keyboard"), store, c.keyboard_hidden, dim, false);
  norms("key_attn_q_norm", "key_attn_k_norm", c.keyboard_hidden / c.heads);
}

void WanAction::operator()(const WanActionInput& in, int64_t module, Stream& stream) const {
  const ProfileRange part(stream.hooks.profiler, "actions", ProfileKind::group);
  if (config_.mouse_dim > 0) follow_mouse(in, module, stream);
  if (!in.keyboard_known) keep_keyboard(in, module, stream);
  follow_keyboard(in, module, stream);
}

void WanAction::follow_mouse(const WanActionInput& in, int64_t module, Stream& stream) const {
  Arena& arena = *stream.arena;
  const ArenaScope scope(arena);
  const DType type = stream.precision.activation;
  const int64_t rows = in.x.dim(0), dim = in.x.dim(1), wide = config_.mouse_hidden, heads = config_.heads;
  const int64_t places = rows / in.frames, width = wide / heads, seen = config_.past() * config_.mouse_dim;
  const Tensor qkv = arena.tensor(type, {rows, 3 * wide}), hidden = arena.tensor(type, {rows, wide});
  {
    const ArenaScope inner(arena);
    const Tensor joined = arena.tensor(type, {rows, dim + seen}), wider = arena.tensor(type, {rows, wide});
    ops::copy({.x = in.x, .y = joined.slice(1, 0, dim)}, stream);
    // The windows of neighbouring frames overlap, so they lie in one list of actions.
    ops::copy(
        {.x = strided(in.mouse, {in.frames, places, seen}, {config_.frames_each * config_.mouse_dim, 0, 1}),
         .y = strided(joined.slice(1, dim, dim + seen), {in.frames, places, seen},
                      {places * (dim + seen), dim + seen, 1})},
        stream);
    mouse_up_(joined, wider, stream, {.act = ops::Activation::gelu_tanh});
    mouse_down_(wider, hidden, stream);
  }
  mouse_norm_(hidden, hidden, stream);
  mouse_qkv_(hidden, qkv, stream);
  const Tensor q = qkv.slice(1, 0, wide), k = qkv.slice(1, wide, 2 * wide),
               v = qkv.slice(1, 2 * wide, 3 * wide);
  const std::optional<Tensor> place = in.mouse_ring->place(module, in.first, in.frames);
  norm_and_turn({q, q}, {k, place.value_or(k)}, in.mouse_cos, in.mouse_sin, stream);
  in.mouse_ring->put(module, in.first, place ? Tensor() : k, v, stream);
  // Places are the batch: the frames of a place are `places` rows apart.
  const int64_t end = in.first + in.frames;
  const auto by_places = [&](const Tensor& t, int64_t frames, int64_t row) {
    return strided(t, {places, frames, heads, width}, {row, places * row, width, 1});
  };
  attend_parts(in.parts, in.frames, *in.mouse_ring, module, end,
               [&](const WanPart& p, const Tensor& keys, const Tensor& values) {
                 const auto part_of = [&](const Tensor& t) {
                   return t.slice(0, p.first * places, p.end * places);
                 };
                 ops::attention({.q = by_places(part_of(q), p.end - p.first, 3 * wide),
                                 .k = by_places(p.seen(keys), p.until - p.from, wide),
                                 .v = by_places(p.seen(values), p.until - p.from, wide),
                                 .scale = scale_of(width),
                                 .out = by_places(part_of(hidden), p.end - p.first, wide)},
                                stream);
               });
  mouse_out_(hidden, in.x, stream, {.residual = in.x});
}

void WanAction::keep_keyboard(const WanActionInput& in, int64_t module, Stream& stream) const {
  Arena& arena = *stream.arena;
  const ArenaScope scope(arena);
  const DType type = stream.precision.activation;
  const int64_t wide = config_.keyboard_hidden, given = in.keyboard.dim(0),
                seen = config_.past() * config_.hidden;
  const Tensor pressed = arena.tensor(type, in.keyboard.shape());
  const Tensor hidden = arena.tensor(type, {given, config_.hidden}),
               embedded = arena.tensor(type, {given, config_.hidden}),
               windows = arena.tensor(type, {in.frames, seen}),
               kv = arena.tensor(type, {in.frames, 2 * wide});
  ops::copy({.x = in.keyboard, .y = pressed}, stream);
  key_up_(pressed, hidden, stream, {.act = ops::Activation::silu});
  key_down_(hidden, embedded, stream);
  ops::copy(
      {.x = strided(embedded, {in.frames, seen}, {config_.frames_each * config_.hidden, 1}), .y = windows},
      stream);
  kv_(windows, kv, stream);
  const Tensor k = kv.slice(1, 0, wide), v = kv.slice(1, wide, 2 * wide);
  const std::optional<Tensor> place = in.keyboard_ring->place(module, in.first, in.frames);
  norm_and_turn({k, place.value_or(k)}, {}, in.keyboard_cos, in.keyboard_sin, stream);
  in.keyboard_ring->put(module, in.first, place ? Tensor() : k, v, stream);
}

void WanAction::follow_keyboard(const WanActionInput& in, int64_t module, Stream& stream) const {
  Arena& arena = *stream.arena;
  const ArenaScope scope(arena);
  const DType type = stream.precision.activation;
  const int64_t rows = in.x.dim(0), wide = config_.keyboard_hidden, heads = config_.heads;
  const int64_t width = wide / heads;
  const Tensor q = arena.tensor(type, {rows, wide}), out = arena.tensor(type, {rows, wide});
  {
    const ArenaScope inner(arena);
    Tensor x = in.x;
    if (x.dtype != type) {
      x = arena.tensor(type, x.shape());
      ops::copy({.x = in.x, .y = x}, stream);
    }
    q_(x, q, stream);
  }
  norm_and_turn({q, q}, {}, in.keyboard_cos, in.keyboard_sin, stream);
  const int64_t places = rows / in.frames;
  const auto split = [&](const Tensor& t) { return t.view({1, -1, heads, width}); };
  attend_parts(in.parts, in.frames, *in.keyboard_ring, module, in.first + in.frames,
               [&](const WanPart& p, const Tensor& keys, const Tensor& values) {
                 const auto part_of = [&](const Tensor& t) {
                   return split(t.slice(0, p.first * places, p.end * places));
                 };
                 ops::attention({.q = part_of(q),
                                 .k = split(p.seen(keys)),
                                 .v = split(p.seen(values)),
                                 .scale = scale_of(width),
                                 .out = part_of(out)},
                                stream);
               });
  out_(out, in.x, stream, {.residual = in.x});
}

void fill_action_rope(const WanActionConfig& c, int64_t first, const Tensor& cos, const Tensor& sin) {
  const int64_t frames = cos.dim(0), heads = cos.dim(1), pairs = cos.dim(2);
  for (int64_t f = 0; f < frames; ++f) {
    float *const cosines = cos.as<float>() + f * heads * pairs, *const sines =
                                                                    sin.as<float>() + f * heads * pairs;
    for (int64_t p = 0; p < pairs; ++p) {
      const bool turns = 2 * p < c.turning;
      const double angle =
          turns ? static_cast<double>(first + f) *
                      std::pow(c.theta, -2.0 * static_cast<double>(p) / static_cast<double>(c.turning))
                : 0;
      cosines[p] = static_cast<float>(std::cos(angle)), sines[p] = static_cast<float>(std::sin(angle));
    }
    for (int64_t h = 1; h < heads; ++h) {  // all heads turn by the same angles
      std::copy(cosines, cosines + pairs, cosines + h * pairs);
      std::copy(sines, sines + pairs, sines + h * pairs);
    }
  }
}

}  // namespace tachy
