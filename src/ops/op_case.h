// The cases of an op, from which op_runner (src/inspect) checks and times every implementation.
//
// <op>/<op>_cases.h lists them: a few lines each that make the inputs and outputs in a CaseMemory and return
// the op bound to its arguments. Tiny cases are instant, odd ones hit remainders, strides and unaligned
// pointers, real ones have the shapes of Wan models and are for timing.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/impl_table.h"

namespace tachy::ops {

enum class CaseKind { tiny, odd, real };

// Tensors of one case. Every allocation has guard bytes on both sides; in odd cases data is aligned to 4
// bytes only.
class CaseMemory {
 public:
  CaseMemory(uint64_t seed, CaseKind kind) : engine_(seed), kind_(kind) {}

  using Dims = std::initializer_list<int64_t>;
  Tensor normal(Dims dims, float scale = 1, float offset = 0);  // f32
  Tensor normal_as(DType dtype, Dims dims);                     // narrowed to dtype
  Tensor rows(int64_t count, int64_t limit);                    // i32 in [0, limit)
  Tensor ids(int64_t count, int64_t limit);                     // i64 in [0, limit)
  Tensor output(DType dtype, Dims dims);
  Tensor output(Dims dims) { return output(DType::f32, dims); }
  Tensor inout(const Tensor& t);  // marks an input that the op also writes; returns it
  float random() { return std::normal_distribution<float>()(engine_); }

  static constexpr int64_t kGuardBytes = 256;
  static constexpr uint8_t kGuard = 0xa5;
  struct Block {
    Buffer buffer;
    char* data;
    int64_t bytes;
    bool input, output;
    std::vector<char> pristine;  // of inputs
  };
  std::vector<Block>& blocks() { return blocks_; }
  Block* block_of(const void* data);  // the block that holds this address, or nullptr

 private:
  Tensor allocate(DType dtype, Dims dims, bool input, bool output);
  std::mt19937_64 engine_;
  CaseKind kind_;
  std::vector<Block> blocks_;
};

// An op with its arguments: run(name, stream) runs one implementation, "working" being the float32 yardstick.
struct BoundOp {
  std::vector<std::string> impls;
  std::function<std::string(const std::string& impl, const Stream& stream)> why_not;  // "" when it can run
  std::function<void(const std::string& impl, Stream& stream)> run;
  bool has_working = false;  // without one, results must equal the definition's to the bit
  std::vector<Tensor> outputs;
  double factor = 1;  // raises the tolerance; a case that sets it says why
};

struct OpCase {
  std::string op, name;
  CaseKind kind;
  double bytes, flops;  // that the op must move and do at least
  std::function<BoundOp(CaseMemory&)> make;
};

template <class Args>
BoundOp bind_op(const char* op, void (*function)(const Args&, Stream&), std::span<const Impl<Args>> table,
                void (*working)(const Args&, Stream&), Args args, std::vector<Tensor> outputs) {
  BoundOp bound;
  for (const auto& impl : table) bound.impls.emplace_back(impl.name);
  bound.why_not = [args, table](const std::string& name, const Stream& stream) -> std::string {
    for (const auto& impl : table)
      if (name == impl.name) return why_not(impl, args, stream).value_or("");
    return "no such implementation";
  };
  bound.run = [args, op, function, working](const std::string& name, Stream& stream) {
    if (name == "working") return working(args, stream);
    struct Forced {
      const char* op;
      ~Forced() { set_forced_impl(op, nullptr); }
    } forced{op};
    set_forced_impl(op, name.c_str());
    function(args, stream);
  };
  bound.has_working = working != nullptr;
  bound.outputs = std::move(outputs);
  return bound;
}

}  // namespace tachy::ops
