#include "cpu/conv_weights.h"

#include "base/env.h"
#include "base/error.h"
#include "cpu/conv_panels.h"
#include "cpu/conv_tiles.h"

namespace tachy::cpu {
namespace {

struct Float32Form {
  bool by_hand = false;
  ConvForm form;

  Float32Form() {
    const std::string wanted = env_string("TACHY_CONV", "");
    check(wanted.empty() || wanted == "panels" || wanted == "onednn", ErrorCode::invalid_argument,
          "TACHY_CONV: expected panels or onednn, got '{}'", wanted);
    by_hand = !wanted.empty();
    const bool panels = by_hand ? wanted == "panels" : !library_convolves();
    form = panels ? ConvForm::f32 : ConvForm::onednn;
  }

  // Whether the library has a real kernel for the convolution that every decoder has.
  static bool library_convolves() {
    return conv_kernel({.h = 10, .w = 34, .ci = 16, .co = 16, .kernel_h = 3, .kernel_w = 3, .stride = 1})
        .fast();
  }
};

const Float32Form& float32() {
  static const Float32Form form;
  return form;
}

Compute compute_of(ConvForm form) { return form == ConvForm::bf16 ? Compute::bf16 : Compute::f32; }

}  // namespace

ConvForm conv_form(Compute compute) {
  return usable(compute) == Compute::bf16 ? ConvForm::bf16 : float32().form;
}

std::optional<Refusal> conv_form_why_not(ConvForm form, Compute compute) {
  const ConvForm packed = conv_form(compute);
  if (form == packed) return std::nullopt;
  if (form == ConvForm::bf16)
    return compute == Compute::bf16 ? panels_why_not(Compute::bf16)
                                    : Refusal::settings("float32 is asked for");
  if (packed == ConvForm::bf16) return Refusal::settings("the weights are packed in bf16");
  if (float32().by_hand) return Refusal::settings("TACHY_CONV asks for the other");
  if (form == ConvForm::f32) return Refusal::slower("oneDNN has kernels of its own on this CPU");
  return Refusal::library("oneDNN has only plain loops on this CPU");
}

int64_t conv_weight_bytes(int64_t taps, int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w,
                          Compute compute) {
  const ConvForm form = conv_form(compute);
  if (form == ConvForm::onednn) return taps * packed_conv_bytes(co, ci, kernel_h, kernel_w);
  return conv_panels_bytes(taps, co, ci, kernel_h, kernel_w, compute_of(form));
}

void pack_conv_weight(const Tensor& weight, void* packed, Compute compute, ThreadPool& pool) {
  const ConvForm form = conv_form(compute);
  if (form == ConvForm::onednn)
    return pack_conv_parts(weight, weight.dim(2), weight.dim(3), weight.dim(4), packed, pool);
  pack_conv_panels(weight, packed, compute_of(form), pool);
}

void unpack_conv_weight(const void* packed, int64_t taps, int64_t co, int64_t ci, int64_t kernel_h,
                        int64_t kernel_w, float* plain, Compute compute) {
  const ConvForm form = conv_form(compute);
  if (form == ConvForm::onednn) return unpack_conv_parts(packed, taps, co, ci, kernel_h, kernel_w, plain);
  unpack_conv_panels(packed, taps, co, ci, kernel_h, kernel_w, plain, compute_of(form));
}

}  // namespace tachy::cpu
