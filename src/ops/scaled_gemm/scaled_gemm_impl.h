// The implementations of scaled_gemm, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/scaled_gemm/scaled_gemm.h"

namespace tachy::ops {

std::optional<Refusal> scaled_gemm_why_not_cublaslt(const ScaledGemmArgs& args, const Stream& stream);
void scaled_gemm_cublaslt(const ScaledGemmArgs& args, Stream& stream);
std::optional<Refusal> scaled_gemm_why_not_sm80(const ScaledGemmArgs& args, const Stream& stream);
void scaled_gemm_sm80(const ScaledGemmArgs& args,
                      Stream& stream);  // mma.sync: int8 from sm_75 on, e4m3 from sm_89 on
std::optional<Refusal> scaled_gemm_why_not_plain_sm80(const ScaledGemmArgs& args, const Stream& stream);
void scaled_gemm_plain_sm80(const ScaledGemmArgs& args, Stream& stream);  // any rows
// For int8 on CPUs (scaled_gemm_int8.h), by tiles of AMX, by AVX-512 VNNI, and by pairs of 16 bits.
std::optional<Refusal> scaled_gemm_why_not_amx(const ScaledGemmArgs& args, const Stream& stream);
std::optional<Refusal> scaled_gemm_why_not_vnni(const ScaledGemmArgs& args, const Stream& stream);
std::optional<Refusal> scaled_gemm_why_not_simd(const ScaledGemmArgs& args, const Stream& stream);
void scaled_gemm_amx(const ScaledGemmArgs& args, Stream& stream);
void scaled_gemm_vnni(const ScaledGemmArgs& args, Stream& stream);
void scaled_gemm_simd(const ScaledGemmArgs& args, Stream& stream);
void scaled_gemm_ref(const ScaledGemmArgs& args, Stream& stream);  // the definition, with sums in double
// The definition in float; its error sets the tolerance.
void scaled_gemm_working(const ScaledGemmArgs& args, Stream& stream);
std::span<const Impl<ScaledGemmArgs>> scaled_gemm_table();

}  // namespace tachy::ops
