// One product of a model with the low-rank adapters beside it:
//   y = epilogue(x·Wᵀ + bias + Σ_i s_i·(x·A_iᵀ)·B_iᵀ)
// All adapters of one product read x together: their A matrices are stacked. Adapters of the same layer are
// added in one product, with their B matrices side by side. Layers that are joined have adapters of their
// own, which are added to their columns. The strengths are a separate vector, so that they can change alone.
//
// There are three ways to compute this, which cost differently. Let x be [M, in], y [M, out],
// and R the sum of the ranks:
//
//   matrix   W + B·(sA) in scratch, then one product with the whole epilogue: 2·out·in values moved, whatever
//            M is. The sum is rounded, as if the adapters were merged. Used when the form has its matrix on a
//            device and there are many rows.
//   codes    x·Aᵀ from the codes of 8 bits that the product makes of x anyway, with A in 8 bits, too; B·low
//            goes into y, which the product adds before its activation. Used when the form reads codes.
//   after    x·Aᵀ, the product, then B·low added to y: M·(in + 2·out) values moved. The linear part of the
//            epilogue takes the sum in two products; an activation is a separate pass after them. Used
//            everywhere else.
//
// Products read and write the activations' dtype, so in the last two ways the activation's input is rounded,
// as in PyTorch.
#pragma once

#include "nn/adapter_values.h"
#include "nn/linear.h"
#include "nn/rounded_weight.h"
#include "nn/weight_form.h"

namespace tachy::nn {

class AdaptedLinear {
 public:
  // parts[i] holds the adapters of linear.parts()[i]. The store is the linear's: on a GPU or beside it.
  // `scales` is set later (take_scales), for all layers in one piece.
  using PartAdapters = std::vector<LayerAdapters>;
  AdaptedLinear(const Linear& linear, const PartAdapters& parts, ParamStore& store);

  const Linear& linear() const { return linear_; }
  // Works like Linear's; scratch comes from the stream's arena.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& epilogue) const;

  // For each row of the stacked A: the adapter it belongs to (null for a row of zeros), and the factor by
  // which its strength must be multiplied. Call it once, after the values have been filled in: codes have
  // scales, which are part of the factor.
  struct Row {
    const LowRank* adapter;
    float factor;
  };
  std::vector<Row> take_rows();
  int64_t rank() const { return a_.dim(0); }                    // total rank: rows of the stacked A
  void take_scales(const Tensor& scales) { scales_ = scales; }  // [rank()] f32, where the linear computes
  // Adds everything except the linear that a recorded product depends on.
  void add_layout(std::vector<uint64_t>& to) const;

 private:
  struct Part {
    int64_t first, columns;  // columns of y
    int64_t from, rank;      // rows of the stacked A
    Tensor b;                // [columns, rank]
  };
  bool in_matrix(int64_t rows) const;
  bool covers_all() const;
  Tensor low_of(const Tensor& x, const WeightForm::Codes* codes, Stream& stream) const;
  void by_matrix(ops::GemmArgs args, Stream& stream) const;
  void by_codes(const ops::GemmArgs& args, Stream& stream) const;
  void after(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& epilogue) const;
  void add(const Tensor& low, const Tensor& y, const Epilogue& epilogue, Stream& stream) const;

  Linear linear_;
  bool codes_ = false;  // a_ is in codes
  Tensor a_;            // [R, in]
  Tensor scales_;       // [R] f32
  std::vector<Part> parts_;
  std::vector<Row> rows_;               // kept until they are taken
  std::vector<RoundedWeight> rounded_;  // each part's codes, kept as long
};

}  // namespace tachy::nn
