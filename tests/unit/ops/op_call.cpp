#include "op_call.h"

#include <map>

#include "ops/activation/activation.h"
#include "ops/activation/activation_backward.h"
#include "ops/add_norm/add_norm_backward.h"
#include "ops/attention/attention_backward.h"
#include "ops/channel_norm/channel_norm_backward.h"
#include "ops/coarse_attention/coarse_attention.h"
#include "ops/gated_residual/gated_residual_backward.h"
#include "ops/gemm/gemm.h"
#include "ops/glu/glu.h"
#include "ops/glu/glu_backward.h"
#include "ops/group_norm/group_norm.h"
#include "ops/group_norm/group_norm_backward.h"
#include "ops/layernorm_modulate/layernorm_modulate_backward.h"
#include "ops/linear_attention/linear_attention.h"
#include "ops/lora/lora.h"
#include "ops/lora/lora_backward.h"
#include "ops/match_colors/match_colors.h"
#include "ops/merge_softmax/merge_softmax.h"
#include "ops/qk_norm_rope/qk_norm_rope_backward.h"
#include "ops/quantize/quantize.h"
#include "ops/region_rope/region_rope.h"
#include "ops/reparameterize/reparameterize.h"
#include "ops/reparameterize/reparameterize_backward.h"
#include "ops/rmsnorm/rmsnorm_backward.h"
#include "ops/rope/rope_backward.h"
#include "ops/scaled_gemm/scaled_gemm.h"

namespace tachy {
namespace {

using namespace ops;

// The tensors and options of one call, which are read by name.
struct Call {
  const OpCall& call;

  Tensor in(const char* name) const {
    const auto found = call.inputs.find(name);
    return found == call.inputs.end() ? Tensor() : found->second;
  }
  Tensor out(const char* name, DType dtype, std::initializer_list<int64_t> dims) const {
    return call.make_output(name, dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }
  Tensor like(const char* name, const Tensor& t) const { return call.make_output(name, t.dtype, t.shape()); }
  // Returns a tensor for the gradient of an optional tensor, which is wanted if that tensor is there.
  Tensor like_given(const char* name, const Tensor& t) const {
    return t.defined() ? like(name, t) : Tensor();
  }
  template <class T>
  T option(const char* name, T otherwise) const {
    return call.options.value(name, otherwise);
  }
  float eps() const { return option("eps", 1e-6f); }
  Activation act() const {
    static const std::map<std::string, Activation> kinds = {{"none", Activation::none},
                                                            {"silu", Activation::silu},
                                                            {"gelu_tanh", Activation::gelu_tanh},
                                                            {"gelu_erf", Activation::gelu_erf},
                                                            {"mish", Activation::mish}};
    return kinds.at(option<std::string>("act", "none"));
  }
  NormKind norm() const {
    return option<std::string>("kind", "rms") == "rms" ? NormKind::rms : NormKind::layer;
  }
  RopePairs pairs() const { return option("halves", false) ? RopePairs::halves : RopePairs::adjacent; }
  QuantBlock block() const { return {option<int64_t>("block_rows", 0), option<int64_t>("block_columns", 0)}; }
  AttentionArgs attention() const {
    AttentionArgs a{.q = in("q"), .k = in("k"), .v = in("v"), .key_bias = in("key_bias"), .bias = in("bias")};
    a.scale = option("scale", 1.0f);
    a.causal = option("causal", false);
    a.causal_offset = option<int64_t>("causal_offset", 0);
    return a;
  }
};

DType quant_dtype(const std::string& name) {
  return name == "e4m3" ? DType::f8_e4m3 : name == "e5m2" ? DType::f8_e5m2 : DType::i8;
}

void call_rope_table(const Call& c, Stream&) {
  const int64_t d = c.option<int64_t>("head_dim", 0);
  const double theta = c.option("theta", 10000.0);
  const RopeTime time{.first = c.option<int64_t>("first", 0), .reverse = c.option("reverse", false)};
  if (c.call.options.contains("length")) {
    const int64_t l = c.option<int64_t>("length", 0);
    return rope_table_1d(l, d, theta, c.out("cos", DType::f32, {l, d / 2}),
                         c.out("sin", DType::f32, {l, d / 2}), time);
  }
  const auto grid = c.call.options.at("grid").get<std::vector<int64_t>>();
  const int64_t l = grid.at(0) * grid.at(1) * grid.at(2);
  rope_table_3d(grid[0], grid[1], grid[2], d, theta, c.out("cos", DType::f32, {l, d / 2}),
                c.out("sin", DType::f32, {l, d / 2}), time);
}

void call_attention(const Call& c, Stream& s) {
  AttentionArgs a = c.attention();
  a.out = c.like("out", a.q);
  a.lse = c.out("lse", a.q.dtype, {a.q.dim(0), a.q.dim(2), a.q.dim(1)});
  attention(a, s);
}

void call_listed_attention(const Call& c, Stream& s) {
  AttentionArgs a = c.attention();
  const auto most = c.option<int64_t>("most", 0);
  a.blocks = {c.in("indices"), c.in("counts"), {c.in("query_ends"), most}, {c.in("key_ends"), most}};
  a.out = c.like("out", a.q);
  a.lse = c.out("lse", a.q.dtype, {a.q.dim(0), a.q.dim(2), a.q.dim(1)});
  attention(a, s);
}

void call_coarse_attention(const Call& c, Stream& s) {
  const auto keep = c.option<int64_t>("keep", 1);
  CoarseAttentionArgs a{.q = c.in("q"),
                        .k = c.in("k"),
                        .query_ends = c.in("query_ends"),
                        .key_ends = c.in("key_ends"),
                        .scale = c.option("scale", 1.0f),
                        .keep = keep,
                        .v = c.in("v")};
  const int64_t b = a.q.dim(0), h = a.q.dim(2), blocks = a.query_ends.dim(0);
  a.out = c.out("out", DType::f32, {b, blocks, h, a.q.dim(3)});
  a.indices = c.out("indices", DType::i32, {b, h, blocks, keep});
  a.counts = c.out("counts", DType::i32, {b, h, blocks});
  coarse_attention(a, s);
}

void call_linear_attention(const Call& c, Stream& s) {
  linear_attention({.q = c.in("q"),
                    .k = c.in("k"),
                    .v = c.in("v"),
                    .q_scale = c.option("q_scale", 1.0f),
                    .out = c.like("out", c.in("q"))},
                   s);
}

void call_attention_backward(const Call& c, Stream& s) {
  AttentionBackwardArgs a{.forward = c.attention(), .dout = c.in("dout")};
  a.forward.out = c.in("out"), a.forward.lse = c.in("lse");
  a.dq = c.like("dq", a.forward.q), a.dk = c.like("dk", a.forward.k), a.dv = c.like("dv", a.forward.v);
  attention_backward(a, s);
}

void call_region_rope(const Call& c, Stream& s) {
  const Tensor shares = c.in("shares");
  const int64_t tokens = shares.dim(0), pairs = c.option<int64_t>("pairs", 0);
  region_rope({.shares = shares,
               .sizes = c.in("sizes"),
               .cos = c.out("cos", DType::f32, {tokens, pairs}),
               .sin = c.out("sin", DType::f32, {tokens, pairs})},
              s);
}

void call_quantize(const Call& c, Stream& s) {
  QuantizeArgs a{.x = c.in("x"), .block = c.block(), .given_scale = c.in("scale").defined()};
  const int64_t m = a.x.dim(0), n = a.x.dim(1), br = a.block.rows ? a.block.rows : m,
                bc = a.block.columns ? a.block.columns : n;
  a.scale =
      a.given_scale ? c.in("scale") : c.out("scale", DType::f32, {(m + br - 1) / br, (n + bc - 1) / bc});
  const Tensor codes = c.out("q", DType::u8, {m, n});
  a.q = codes;
  a.q.dtype = quant_dtype(c.option<std::string>("type", ""));
  quantize(a, s);
}

void call_dequantize(const Call& c, Stream& s) {
  DequantizeArgs a{.q = c.in("q"), .block = c.block(), .scale = c.in("scale")};
  a.q.dtype = quant_dtype(c.option<std::string>("type", ""));
  a.y = c.out("y", DType::f32, {a.q.dim(0), a.q.dim(1)});
  dequantize(a, s);
}

void call_scaled_gemm(const Call& c, Stream& s) {
  Tensor x = c.in("x"), weight = c.in("weight");
  x.dtype = weight.dtype = quant_dtype(c.option<std::string>("type", ""));
  scaled_gemm({.x = x,
               .x_scale = c.in("x_scale"),
               .weight = weight,
               .weight_scale = c.in("weight_scale"),
               .bias = c.in("bias"),
               .addend = c.in("addend"),
               .act = c.act(),
               .y = c.out("y", DType::f32, {x.dim(0), weight.dim(0)})},
              s);
}

void call_layernorm_modulate_backward(const Call& c, Stream& s) {
  LayerNormModulateBackwardArgs a{.x = c.in("x"), .weight = c.in("weight"), .bias = c.in("bias")};
  a.scale = c.in("scale"), a.row = c.in("row"), a.dy = c.in("dy"), a.eps = c.eps();
  a.dx = c.like("dx", a.x);
  a.dweight = c.like_given("dweight", a.weight), a.dbias = c.like_given("dbias", a.bias);
  a.dscale = c.like_given("dscale", a.scale), a.dshift = c.like_given("dshift", a.scale);
  layernorm_modulate_backward(a, s);
}

void call_gemm(const Call& c, Stream& s) {
  const Tensor x = c.in("x"), weight = c.in("weight");
  gemm({.x = x,
        .weight = weight,
        .bias = c.in("bias"),
        .act = c.act(),
        .y = c.out("y", DType::f32, {x.dim(0), weight.dim(0)})},
       s);
}

// The tensor y0 has the values that are already there.
void call_lora(const Call& c, Stream& s) {
  LoraArgs a{
      .x = c.in("x"), .a = c.in("a"), .b = c.in("b"), .scales = c.in("scales"), .index = c.in("index")};
  a.y = c.out("y", a.x.dtype, {a.x.dim(0), a.b.dim(1)});
  const Tensor before = c.in("y0");
  a.accumulate = before.defined();
  if (a.accumulate) std::copy_n(before.as<float>(), before.numel(), a.y.as<float>());
  lora(a, s);
}

void call_lora_backward(const Call& c, Stream& s) {
  LoraBackwardArgs a{
      .x = c.in("x"), .a = c.in("a"), .b = c.in("b"), .scales = c.in("scales"), .index = c.in("index")};
  a.dy = c.in("dy");
  a.dx = c.like("dx", a.x), a.da = c.like("da", a.a), a.db = c.like("db", a.b);
  a.dscales = c.like_given("dscales", a.scales);
  lora_backward(a, s);
}

// The tensors y0 and y0_lse have the values that are already there.
void call_merge_softmax(const Call& c, Stream& s) {
  const Tensor before = c.in("y0"), before_lse = c.in("y0_lse");
  MergeSoftmaxArgs a{
      .x = c.in("x"), .x_lse = c.in("x_lse"), .y = c.like("y", before), .y_lse = c.like("y_lse", before_lse)};
  std::copy_n(before.as<float>(), before.numel(), a.y.as<float>());
  std::copy_n(before_lse.as<float>(), before_lse.numel(), a.y_lse.as<float>());
  merge_softmax(a, s);
}

using Function = void (*)(const Call&, Stream&);
const std::map<std::string, Function>& functions() {
  static const std::map<std::string, Function> all = {
      {"rope_table", call_rope_table},
      {"attention", call_attention},
      {"attention_backward", call_attention_backward},
      {"listed_attention", call_listed_attention},
      {"coarse_attention", call_coarse_attention},
      {"linear_attention", call_linear_attention},
      {"quantize", call_quantize},
      {"dequantize", call_dequantize},
      {"layernorm_modulate_backward", call_layernorm_modulate_backward},
      {"gemm", call_gemm},
      {"scaled_gemm", call_scaled_gemm},
      {"lora", call_lora},
      {"region_rope", call_region_rope},
      {"merge_softmax", call_merge_softmax},
      {"lora_backward", call_lora_backward},
      {"gated_residual_backward",
       [](const Call& c, Stream& s) {
         gated_residual_backward({.u = c.in("u"),
                                  .gate = c.in("gate"),
                                  .row = c.in("row"),
                                  .dy = c.in("dy"),
                                  .dx = c.like("dx", c.in("dy")),
                                  .du = c.like("du", c.in("dy")),
                                  .dgate = c.like_given("dgate", c.in("gate"))},
                                 s);
       }},
      {"activation",
       [](const Call& c, Stream& s) {
         activation({.x = c.in("x"), .kind = c.act(), .y = c.like("y", c.in("x"))}, s);
       }},
      {"activation_backward",
       [](const Call& c, Stream& s) {
         activation_backward(
             {.x = c.in("x"), .dy = c.in("dy"), .kind = c.act(), .dx = c.like("dx", c.in("x"))}, s);
       }},
      {"glu",
       [](const Call& c, Stream& s) {
         glu({.a = c.in("a"), .b = c.in("b"), .kind = c.act(), .y = c.like("y", c.in("a"))}, s);
       }},
      {"glu_backward",
       [](const Call& c, Stream& s) {
         glu_backward({.a = c.in("a"),
                       .b = c.in("b"),
                       .dy = c.in("dy"),
                       .kind = c.act(),
                       .da = c.like("da", c.in("a")),
                       .db = c.like("db", c.in("b"))},
                      s);
       }},
      {"rope",
       [](const Call& c, Stream& s) {
         rope({.x = c.in("x"),
               .cos = c.in("cos"),
               .sin = c.in("sin"),
               .pairs = c.pairs(),
               .y = c.like("y", c.in("x"))},
              s);
       }},
      {"rope_backward",
       [](const Call& c, Stream& s) {
         rope_backward({.dy = c.in("dy"),
                        .cos = c.in("cos"),
                        .sin = c.in("sin"),
                        .pairs = c.pairs(),
                        .dx = c.like("dx", c.in("dy"))},
                       s);
       }},
      {"group_norm",
       [](const Call& c, Stream& s) {
         group_norm({.x = c.in("x"),
                     .groups = c.option("groups", 1),
                     .weight = c.in("weight"),
                     .bias = c.in("bias"),
                     .eps = c.eps(),
                     .act = c.act(),
                     .y = c.like("y", c.in("x"))},
                    s);
       }},
      {"group_norm_backward",
       [](const Call& c, Stream& s) {
         group_norm_backward({.x = c.in("x"),
                              .groups = c.option("groups", 1),
                              .weight = c.in("weight"),
                              .bias = c.in("bias"),
                              .eps = c.eps(),
                              .act = c.act(),
                              .dy = c.in("dy"),
                              .dx = c.like("dx", c.in("x")),
                              .dweight = c.like_given("dweight", c.in("weight")),
                              .dbias = c.like_given("dbias", c.in("bias"))},
                             s);
       }},
      {"add_norm",
       [](const Call& c, Stream& s) {
         add_norm({.x = c.in("x"),
                   .u = c.in("u"),
                   .kind = c.norm(),
                   .weight = c.in("weight"),
                   .bias = c.in("bias"),
                   .eps = c.eps(),
                   .sum = c.like("sum", c.in("x")),
                   .y = c.like("y", c.in("x"))},
                  s);
       }},
      {"add_norm_backward",
       [](const Call& c, Stream& s) {
         const Tensor sum = c.in("sum"), weight = c.in("weight");
         add_norm_backward({.sum = sum,
                            .kind = c.norm(),
                            .weight = weight,
                            .eps = c.eps(),
                            .dy = c.in("dy"),
                            .dsum = c.in("dsum"),
                            .dx = c.like("dx", sum),
                            .dweight = c.like_given("dweight", weight),
                            .dbias = c.like_given("dbias", weight)},
                           s);
       }},
      {"rmsnorm_backward",
       [](const Call& c, Stream& s) {
         rmsnorm_backward({.x = c.in("x"),
                           .weight = c.in("weight"),
                           .dy = c.in("dy"),
                           .eps = c.eps(),
                           .dx = c.like("dx", c.in("x")),
                           .dweight = c.like_given("dweight", c.in("weight"))},
                          s);
       }},
      {"channel_norm_backward",
       [](const Call& c, Stream& s) {
         channel_norm_backward({.x = c.in("x"),
                                .gamma = c.in("gamma"),
                                .silu = c.option("silu", true),
                                .dy = c.in("dy"),
                                .dx = c.like("dx", c.in("x")),
                                .dgamma = c.like("dgamma", c.in("gamma"))},
                               s);
       }},
      {"qk_norm_rope_backward",
       [](const Call& c, Stream& s) {
         qk_norm_rope_backward({.x = c.in("x"),
                                .weight = c.in("weight"),
                                .eps = c.eps(),
                                .heads = c.option("heads", 1),
                                .cos = c.in("cos"),
                                .sin = c.in("sin"),
                                .dy = c.in("dy"),
                                .dx = c.like("dx", c.in("x")),
                                .dweight = c.like_given("dweight", c.in("weight"))},
                               s);
       }},
      {"match_colors",
       [](const Call& c, Stream& s) {
         match_colors({.x = c.in("frames"),
                       .picture = lab_statistics(c.in("picture"), s),
                       .strength = c.option("strength", 1.0),
                       .y = c.like("y", c.in("frames"))},
                      s);
       }},
      {"reparameterize",
       [](const Call& c, Stream& s) {
         reparameterize({.mean = c.in("mean"),
                         .logvar = c.in("logvar"),
                         .noise = c.in("noise"),
                         .center = c.in("center"),
                         .factor = c.in("factor"),
                         .z = c.like("z", c.in("mean"))},
                        s);
       }},
      {"reparameterize_backward",
       [](const Call& c, Stream& s) {
         const Tensor logvar = c.in("logvar");
         reparameterize_backward({.logvar = logvar,
                                  .noise = c.in("noise"),
                                  .factor = c.in("factor"),
                                  .dz = c.in("dz"),
                                  .dmean = c.like("dmean", logvar),
                                  .dlogvar = c.like("dlogvar", logvar)},
                                 s);
       }},
  };
  return all;
}

}  // namespace

void call_op(const OpCall& call, Stream& stream) {
  const auto found = functions().find(call.op);
  require(found != functions().end(), "op_call: no op named '{}'", call.op);
  found->second(Call{call}, stream);
}

}  // namespace tachy
