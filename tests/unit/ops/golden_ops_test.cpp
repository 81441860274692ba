// Ops are compared with values from PyTorch, diffusers and transformers (tests/golden/ops/make_ops.py), in
// every implementation; backward definitions in float64 are compared with autograd. The gradients are also
// checked without it: the definitions' slopes are compared with differences of the forward definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <list>
#include <map>

#include "op_call.h"
#include "ops/attention/attention_impl.h"
#include "ops/group_norm/group_norm_impl.h"
#include "ops/impl_table.h"

namespace tachy {
namespace {

class Memory {
 public:
  Tensor make(DType dtype, std::span<const int64_t> dims) {
    Tensor t(nullptr, dtype, dims);
    buffers_.emplace_back(static_cast<size_t>(t.bytes()));
    t.data = buffers_.back().data();
    std::fill_n(static_cast<uint8_t*>(t.data), t.bytes(), 0xff);
    return t;
  }
  Tensor make(DType dtype, std::initializer_list<int64_t> dims) {
    return make(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }
  Tensor load(const nlohmann::json& stored) {
    const std::string name = stored.at("dtype");
    const DType dtype = name == "float64" ? DType::f64
                        : name == "int32" ? DType::i32
                        : name == "uint8" ? DType::u8
                                          : DType::f32;
    const Tensor t = make(dtype, stored.at("shape").get<std::vector<int64_t>>());
    int64_t i = 0;
    for (const auto& v : stored.at("data")) {
      const double value =
          v.is_string() ? std::strtod(v.get<std::string>().c_str(), nullptr) : v.get<double>();
      switch (dtype) {
        case DType::f64:
          t.as<double>()[i++] = value;
          break;
        case DType::i32:
          t.as<int32_t>()[i++] = static_cast<int32_t>(value);
          break;
        case DType::u8:
          t.as<uint8_t>()[i++] = static_cast<uint8_t>(value);
          break;
        default:
          t.as<float>()[i++] = static_cast<float>(value);
      }
    }
    return t;
  }

 private:
  std::list<Buffer> buffers_;
};

double value(const Tensor& t, int64_t i) {
  if (t.dtype == DType::f64) return t.as<double>()[i];
  if (t.dtype == DType::u8) return t.as<uint8_t>()[i];
  if (t.dtype == DType::i32) return t.as<int32_t>()[i];
  return t.as<float>()[i];
}

// Expects max|y − R| <= bound·max|R|, with NaN and infinities in the same places; with a bound of 0 all
// values are equal.
void expect_within(const Tensor& y, const Tensor& expected, double bound, const std::string& what) {
  ASSERT_TRUE(same_shape(y, expected))
      << what << ": " << shape_string(y) << " for " << shape_string(expected);
  double top = 0;
  for (int64_t i = 0; i < y.numel(); ++i)
    if (std::isfinite(value(expected, i))) top = std::max(top, std::abs(value(expected, i)));
  for (int64_t i = 0; i < y.numel(); ++i) {
    const double got = value(y, i), want = value(expected, i);
    if (std::isnan(want))
      ASSERT_TRUE(std::isnan(got)) << what << " at " << i << ": " << got;
    else if (std::isinf(want))
      ASSERT_EQ(got, want) << what << " at " << i;
    else
      ASSERT_LE(std::abs(got - want), bound * top) << what << " at " << i << ": " << got << " for " << want;
  }
}

// Returns the number of outputs that were compared.
int compare(const nlohmann::json& entry, const char* impl) {
  Memory memory;
  ThreadPool pool(2);
  Arena arena(4 << 20);
  Stream stream{&arena, &pool};
  std::map<std::string, Tensor> outputs;
  OpCall call{.op = entry.at("op"), .options = entry.at("options")};
  for (const auto& [name, stored] : entry.at("inputs").items()) call.inputs[name] = memory.load(stored);
  call.make_output = [&](const std::string& name, DType dtype, std::span<const int64_t> dims) {
    return outputs[name] = memory.make(dtype, dims);
  };
  const std::string forced = call.op == "listed_attention" ? "attention" : call.op;
  ops::set_forced_impl(forced.c_str(), impl);
  call_op(call, stream);
  ops::set_forced_impl(forced.c_str(), nullptr);
  int count = 0;
  for (const auto& [name, stored] : entry.at("outputs").items()) {
    const auto found = outputs.find(name);
    if (found == outputs.end()) {
      ADD_FAILURE() << call.op << " has no output " << name;
      continue;
    }
    const auto what = fmt::format("{}:{} {} {}", call.op, impl ? impl : "", name, entry.at("options").dump());
    expect_within(found->second, memory.load(stored), stored.at("bound"), what);
    ++count;
  }
  return count;
}

TEST(GoldenOps, EveryImplementationAgreesWithPyTorch) {
  const auto all = nlohmann::json::parse(std::ifstream(TACHY_SOURCE_DIR "/tests/golden/ops/ops.json"));
  std::map<std::string, int> compared;
  for (const auto& entry : all) {
    const std::string op = entry.at("op");
    if (op == "rope_table") {
      compared[op] += compare(entry, nullptr);
      continue;
    }
    compared[op] += compare(entry, "ref");
    if (op == "scaled_gemm") {
      compared[op] += compare(entry, nullptr);  // compares the implementations that this CPU takes
      if (entry.at("options").at("type") == "i8") compared["scaled_gemm:simd"] += compare(entry, "simd");
      continue;
    }
    if (op == "coarse_attention" || op == "linear_attention") continue;  // they have the definition alone
    if (!op.ends_with("_backward")) compared[op] += compare(entry, op == "gemm" ? "f32" : "cpu");
  }
  for (const char* op : {"attention",
                         "attention_backward",
                         "coarse_attention",
                         "linear_attention",
                         "listed_attention",
                         "rope_table",
                         "rope",
                         "rope_backward",
                         "qk_norm_rope_backward",
                         "activation",
                         "activation_backward",
                         "glu",
                         "glu_backward",
                         "gemm",
                         "rmsnorm_backward",
                         "layernorm_modulate_backward",
                         "channel_norm_backward",
                         "add_norm",
                         "add_norm_backward",
                         "group_norm",
                         "group_norm_backward",
                         "gated_residual_backward",
                         "lora",
                         "lora_backward",
                         "merge_softmax",
                         "reparameterize",
                         "reparameterize_backward",
                         "quantize",
                         "dequantize",
                         "scaled_gemm",
                         "scaled_gemm:simd"})
    EXPECT_GT(compared[op], 0) << op << " has no golden values";
}

// Compares the gradient with ∂/∂x of Σ weight·y by central differences of a forward definition in float64.
void check_gradient(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& gradient,
                    const std::function<void()>& forward) {
  const auto loss = [&] {
    forward();
    double sum = 0;
    for (int64_t i = 0; i < y.numel(); ++i) sum += y.as<double>()[i] * weight.as<double>()[i];
    return sum;
  };
  for (int64_t i = 0; i < x.numel(); ++i) {
    double& v = x.as<double>()[i];
    const double before = v, step = 1e-5;
    v = before + step;
    const double up = loss();
    v = before - step;
    const double down = loss();
    v = before;
    ASSERT_NEAR(gradient.as<double>()[i], (up - down) / (2 * step), 1e-7) << "at " << i;
  }
  forward();
}

class Gradients : public testing::Test {
 protected:
  Tensor f64(std::initializer_list<int64_t> dims) {
    const Tensor t = memory_.make(DType::f64, dims);
    for (int64_t i = 0; i < t.numel(); ++i) t.as<double>()[i] = std::sin(1.7 * static_cast<double>(++count_));
    return t;
  }
  Memory memory_;
  int count_ = 0;
  ThreadPool pool_{2};
  Arena arena_{1 << 20};
  Stream stream_{&arena_, &pool_};
};

TEST_F(Gradients, OfAttentionAreTheSlopesOfItsDefinition) {
  for (const bool causal : {false, true}) {
    ops::AttentionArgs f{.q = f64({1, 3, 2, 4}), .k = f64({1, 5, 2, 4}), .v = f64({1, 5, 2, 4})};
    f.scale = 0.5f, f.causal = causal, f.causal_offset = causal ? 1 : 0;
    f.out = f64({1, 3, 2, 4}), f.lse = f64({1, 2, 3});
    const auto forward = [&] { ops::attention_ref(f, stream_); };
    forward();
    const ops::AttentionBackwardArgs b{.forward = f,
                                       .dout = f64({1, 3, 2, 4}),
                                       .dq = f64({1, 3, 2, 4}),
                                       .dk = f64({1, 5, 2, 4}),
                                       .dv = f64({1, 5, 2, 4})};
    ops::attention_backward(b, stream_);
    check_gradient(f.q, f.out, b.dout, b.dq, forward);
    check_gradient(f.k, f.out, b.dout, b.dk, forward);
    check_gradient(f.v, f.out, b.dout, b.dv, forward);
  }
}

TEST_F(Gradients, OfGroupNormAreTheSlopesOfItsDefinition) {
  for (const auto act : {ops::Activation::silu, ops::Activation::mish, ops::Activation::gelu_tanh}) {
    const ops::GroupNormArgs f{.x = f64({2, 3, 6}),
                               .groups = 2,
                               .weight = f64({6}),
                               .bias = f64({6}),
                               .act = act,
                               .y = f64({2, 3, 6})};
    const auto forward = [&] { ops::group_norm_ref(f, stream_); };
    const ops::GroupNormBackwardArgs b{.x = f.x,
                                       .groups = 2,
                                       .weight = f.weight,
                                       .bias = f.bias,
                                       .act = act,
                                       .dy = f64({2, 3, 6}),
                                       .dx = f64({2, 3, 6}),
                                       .dweight = f64({6}),
                                       .dbias = f64({6})};
    ops::group_norm_backward(b, stream_);
    check_gradient(f.x, f.y, b.dy, b.dx, forward);
    check_gradient(f.weight, f.y, b.dy, b.dweight, forward);
    check_gradient(f.bias, f.y, b.dy, b.dbias, forward);
  }
}

}  // namespace
}  // namespace tachy
