// The cases of an op, with which op_runner (src/inspect) checks and times every implementation.
//
// <op>/<op>_cases.h lists them: each is a few lines that make the inputs and outputs in a CaseMemory and
// return the op bound to its arguments. Tiny cases are instant; odd ones hit remainders, strides and
// unaligned pointers; real ones have the shapes of Wan models and are for timing; video ones have those of
// whole videos (up to gigabytes per tensor) and are for GPUs.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ops/impl_table.h"

namespace tachy::ops {

enum class CaseKind { tiny, odd, real, video };

// Where and in which dtype a case is made: on the CPU in float32 (with the activations' values rounded to
// `dtype`, so that the definition reads what the GPU reads), or on a GPU with activations of `dtype`.
struct CaseTarget {
  DType dtype = DType::f32;
  cuda::Gpu* gpu = nullptr;
  DeviceMemory* device = nullptr;  // the same GPU, where the tensors lie
  ThreadPool* pool = nullptr;      // fills large tensors
  bool tiled = false;              // for timing: large tensors of numbers repeat their first million values
  bool blank = false;              // no values: they will be copied from a case like it
};

// Tensors of one case. Every allocation has guard bytes on both sides; in odd cases data is aligned to 4
// bytes only (on a GPU 16-bit values to 2).
//
// On a GPU the values are made on the host, too, and go to the device in finish(), when the case is complete:
// a case that sets values itself writes through host(t), never through t.
class CaseMemory {
 public:
  CaseMemory(uint64_t seed, CaseKind kind, CaseTarget target = {})
      : seed_(seed), engine_(seed), kind_(kind), target_(target) {}

  using Dims = std::initializer_list<int64_t>;
  Tensor normal(Dims dims, float scale = 1, float offset = 0);  // an activation: f32, but on a GPU `dtype`
  Tensor param(Dims dims, float scale = 1, float offset = 0);   // f32 everywhere
  Tensor normal_as(DType dtype, Dims dims);                     // narrowed to dtype
  Tensor rows(int64_t count, int64_t limit);                    // i32 in [0, limit)
  Tensor ids(int64_t count, int64_t limit);                     // i64 in [0, limit)
  Tensor output(DType dtype, Dims dims);                        // has that dtype everywhere
  Tensor output(Dims dims);                                     // an activation
  Tensor host_output(DType dtype, Dims dims);                   // on the host even if the case runs on a GPU
  // A convolution's weight before packing: f32 with values that `dtype` can hold, always on the host.
  Tensor host_weight(Dims dims, float scale = 1);
  // u8; unless the case is blank, it fills the bytes itself, on the device, by the op's pack function.
  Tensor packed(int64_t bytes);
  Tensor inout(const Tensor& t);  // marks and returns an input that the op also writes
  float random() { return std::normal_distribution<float>()(engine_); }

  // t's values on the host, with t's shape and strides; float activations are f32 there.
  Tensor host(const Tensor& t);
  // How many of a tensor's `count` values a case sets; those after them repeat them (CaseTarget::tiled).
  int64_t drawn(int64_t count) const;
  DType dtype() const { return target_.dtype; }
  bool blank() const { return target_.blank; }
  cuda::Gpu* gpu() const { return target_.gpu; }
  DeviceMemory* device() const { return target_.device; }
  // A stream on the case's device, for an op's own pack function.
  Stream stream(Arena& arena, ThreadPool& pool, Compute compute) const {
    return {.arena = &arena,
            .pool = &pool,
            .gpu = target_.gpu,
            .memory = target_.device,
            .precision = {.activation = target_.dtype, .compute = compute}};
  }
  void finish();

  static constexpr int64_t kGuardBytes = 256;
  static constexpr uint8_t kGuard = 0xa5;
  struct Block {
    Buffer buffer;
    char* data;
    int64_t bytes;
    bool input, output;
    std::vector<char> pristine;  // the inputs' bytes before the op runs
    DType dtype = DType::f32;
    bool activation = false, on_device = false, packed = false;
    Buffer values;  // on a GPU: the values that host() returns
  };
  std::vector<Block>& blocks() { return blocks_; }
  Block* block_of(const void* data);  // the block that holds this address, or nullptr

 private:
  Tensor allocate(DType dtype, Dims dims, bool input, bool output, bool activation = false,
                  bool on_host = false);
  void fill_normal(const Tensor& host, float scale, float offset);
  uint64_t seed_;
  std::mt19937_64 engine_;
  CaseKind kind_;
  CaseTarget target_;
  std::vector<Block> blocks_;
};

// The result of the picking rule for one call.
struct Choice {
  std::string impl;                // "none" if nothing can run
  std::vector<PassedOver> passed;  // better ones that were not picked
  size_t candidates = 0;           // number of implementations for the stream's device
};

// An op with its arguments: run(name, stream) runs one implementation. "working" is the float32 version by
// whose error the others are judged.
struct BoundOp {
  std::vector<std::string> impls;
  // Returns nothing if that implementation can run.
  std::function<std::optional<Refusal>(const std::string& impl, const Stream& stream)> why_not;
  std::function<Choice(const Stream& stream)> choose;  // the implementation that a model would get
  std::function<void(const std::string& impl, Stream& stream)> run;
  bool has_working = false;  // without one, results must equal the definition's to the bit
  std::vector<Tensor> outputs;
  std::vector<Tensor> written;     // everything that is written, given if the outputs are only samples of it
  Compute compute = Compute::f32;  // `compute` of the streams on which it runs
  double factor = 1;               // raises the tolerance; a case that sets it says why
};

struct OpCase {
  std::string op, name;
  CaseKind kind;
  double bytes, flops;  // the least that the op must move and compute
  std::function<BoundOp(CaseMemory&)> make;
  bool gpu = false;       // whether it can be made on a GPU
  bool cpu = true;        // whether it can be made on the CPU
  bool waits = false;     // the op reads a result back, so it cannot be captured
  double gpu_factor = 1;  // raises the tolerance on a GPU; a case that sets it says why
};

// Marks every case of a list as one that can be made on a GPU.
inline std::vector<OpCase> on_gpu(std::vector<OpCase> cases) {
  for (OpCase& c : cases) c.gpu = true;
  return cases;
}

template <class Args>
BoundOp bind_op(const char* op, void (*function)(const Args&, Stream&), std::span<const Impl<Args>> table,
                void (*working)(const Args&, Stream&), Args args, std::vector<Tensor> outputs,
                Compute compute = Compute::f32) {
  BoundOp bound;
  for (const auto& impl : table) bound.impls.emplace_back(impl.name);
  bound.why_not = [args, table, compute](const std::string& name, const Stream& given) {
    Stream stream = given;
    stream.precision.compute = compute;
    for (const auto& impl : table)
      if (name == impl.name) return why_not(impl, args, stream);
    fail(ErrorCode::internal, "no implementation is named '{}'", name);
  };
  bound.choose = [args, op, table, compute](const Stream& given) {
    Stream stream = given;
    stream.precision.compute = compute;
    Choice choice;
    const auto* impl = choose(op, table, args, stream, &choice.passed);
    choice.impl = impl ? impl->name : "none";
    choice.candidates = static_cast<size_t>(std::count_if(
        table.begin(), table.end(), [&](const Impl<Args>& i) { return i.device == stream.device_type(); }));
    return choice;
  };
  bound.run = [args, op, function, working, compute](const std::string& name, Stream& given) {
    Stream stream = given;
    stream.precision.compute = compute;
    if (name == "working") return working(args, stream);
    struct Forced {  // TACHY_FORCE's setting comes back at the end
      const char* op;
      std::optional<std::string> before;
      ~Forced() { set_forced_impl(op, before ? before->c_str() : nullptr); }
    } forced{op, forced_impl(op)};
    set_forced_impl(op, name.c_str());
    function(args, stream);
  };
  bound.has_working = working != nullptr;
  bound.outputs = std::move(outputs);
  bound.compute = compute;
  return bound;
}

// For shapes whose whole definition would take hours. The definition computes only `parts` of the outputs,
// which lie in those of `whole`; other implementations compute everything, and the parts are compared.
inline BoundOp define_parts(BoundOp whole, std::vector<BoundOp> parts) {
  whole.written = std::move(whole.outputs), whole.outputs = {};
  for (const BoundOp& part : parts)
    whole.outputs.insert(whole.outputs.end(), part.outputs.begin(), part.outputs.end());
  whole.run = [run = std::move(whole.run), parts = std::move(parts)](const std::string& name,
                                                                     Stream& stream) {
    if (name != "ref" && name != "working") return run(name, stream);
    for (const BoundOp& part : parts) part.run(name, stream);
  };
  return whole;
}

// Samples of `count` rows are taken in three places: at the beginning, in the middle and at the end.
constexpr int64_t kSampledRows = 24;
inline std::vector<int64_t> sampled_rows(int64_t count) {
  return {0, (count - kSampledRows) / 2, count - kSampledRows};
}

}  // namespace tachy::ops
