// The implementations of lora, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/lora/lora.h"
#include "ops/lora/lora_backward.h"

namespace tachy::ops {

void lora_ref(const LoraArgs& args, Stream& stream);      // the definition, in plain loops and float64
void lora_working(const LoraArgs& args, Stream& stream);  // in float32; its error sets the tolerance
void lora_cpu(const LoraArgs& args, Stream& stream);      // on panels
std::optional<Refusal> lora_why_not_cublaslt(const LoraArgs& args, const Stream& stream);
void lora_cublaslt(const LoraArgs& args, Stream& stream);  // for the sum of all, with many rows
std::optional<Refusal> lora_why_not_sm80(const LoraArgs& args, const Stream& stream);
void lora_sm80(const LoraArgs& args, Stream& stream);        // mma.sync: f16 and bf16, aligned x and A
void lora_cuda_plain(const LoraArgs& args, Stream& stream);  // takes every call
std::optional<Refusal> lora_why_not_few_rows(const LoraArgs& args, const Stream& stream);
// For up to 64 rows in f16 and bf16; has not run on a GPU yet.
void lora_few_rows(const LoraArgs& args, Stream& stream);
std::span<const Impl<LoraArgs>> lora_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void lora_backward_ref(const LoraBackwardArgs& args, Stream& stream);
std::optional<Refusal> lora_backward_why_not_sm80(const LoraBackwardArgs& args, const Stream& stream);
void lora_backward_sm80(const LoraBackwardArgs& args, Stream& stream);
void lora_backward_plain(const LoraBackwardArgs& args, Stream& stream);
void lora_backward_working(const LoraBackwardArgs& args, Stream& stream);
std::span<const Impl<LoraBackwardArgs>> lora_backward_table();

// Shapes that both passes check.
struct LoraShape {
  int64_t m, k, n, rank, adapters;
};
LoraShape lora_shape(const char* op, const Tensor& x, const Tensor& a, const Tensor& b);
// Rows name adapters in [0, adapters) or −1; on the CPU every entry is checked.
void expect_adapters(const char* op, const Tensor& index, const LoraShape& shape, const Stream& stream);

// Row j of adapter i in a table [n, rows, columns].
template <class T>
T* lora_row(const Tensor& t, int64_t i, int64_t j) {
  return static_cast<T*>(t.data) + i * t.strides[0] + j * t.strides[1];
}

}  // namespace tachy::ops
