// One product of a model with the low-rank adapters beside it:
//   y = epilogue(x·Wᵀ + bias + Σ_i s_i·(x·A_iᵀ)·B_iᵀ)
// All adapters of one product read x together: their A lie one below another. Those of one layer are added in one
// product, their B side by side. Layers that are joined have adapters of their own, which are added to their columns.
// Their strengths are a vector of their own, so that they can change alone.
//
// There are three ways to it, which cost differently; x is [M, in], y [M, out], R the sum of the ranks:
//
//   matrix   W + B·(sA) in scratch, then one product with the whole epilogue: 2·out·in values moved, whatever M is.
//            What is rounded is the sum, as if the adapters were merged. Where the form has its matrix on a device
//            and rows are many.
//   codes    x·Aᵀ from the codes of 8 bits that the product makes of x anyway, with A in 8 bits, too; B·low goes
//            into y, which the product adds before its activation. Where the form reads codes.
//   after    x·Aᵀ, the product, then B·low added to y: M·(in + 2·out) values moved. What is linear in the epilogue
//            takes the sum in two products; an activation is a pass of its own after them. Everywhere else.
//
// Products read and write the activations' dtype, so in the last two, as in PyTorch, what enters the activation is rounded.
#pragma once

#include "nn/adapter_values.h"
#include "nn/linear.h"
#include "nn/rounded_weight.h"
#include "nn/weight_form.h"

namespace tachy::nn {

class AdaptedLinear {
 public:
  // parts[i]: the adapters of linear.parts()[i]. The store is the linear's: on a GPU or beside it. `scales` comes
  // later (take_scales), for all layers in one piece.
  using PartAdapters = std::vector<LayerAdapters>;
  AdaptedLinear(const Linear& linear, const PartAdapters& parts, ParamStore& store);

  const Linear& linear() const { return linear_; }
  // As Linear's; scratch comes from the stream's arena.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& epilogue) const;

  // For each row of the stacked A: which adapter's it is (null: a row of zeros), and what its strength is to be
  // multiplied with. Once, when what was filled is there: making codes has told their scales.
  struct Row {
    const LowRank* adapter;
    float factor;
  };
  std::vector<Row> take_rows();
  int64_t rank() const { return a_.dim(0); }                    // of the stacked A
  void take_scales(const Tensor& scales) { scales_ = scales; }  // [rank()] f32, where the linear computes
  // All that a recorded product depends on, but the linear.
  void add_layout(std::vector<uint64_t>& to) const;

 private:
  struct Part {
    int64_t first, columns;  // of y
    int64_t from, rank;      // of the stacked A's rows
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
  std::vector<Row> rows_;               // until they are taken
  std::vector<RoundedWeight> rounded_;  // likewise: of each part's codes
};

}  // namespace tachy::nn
