// One product of a model together with its low-rank adapters:
//   y = epilogue(x·Wᵀ + bias + Σ_i s_i·(x·A_iᵀ)·B_iᵀ)
// All adapters of a product read x at once, because their A matrices are stacked. The adapters of one layer
// are added in one product, with their B matrices side by side. If layers are joined, each has its own
// adapters, which are added to its columns. The strengths are a separate vector, so that they can change
// alone.
//
// There are three ways to compute this, with different costs. Let x be [M, in], y [M, out], and R the sum of
// the ranks:
//
//   matrix   W + B·(sA) in scratch, then one product with its epilogue; 2·out·in values are moved, whatever
//            M is. The sum is rounded, as if the adapters were merged. Used if the form has its matrix on a
//            device and there are many rows.
//   codes    x·Aᵀ from the 8-bit codes that the product makes of x anyway, with A in 8 bits, too. B·low goes
//            into y, to which the product adds before its activation. Used if the form reads codes.
//   after    x·Aᵀ, the product, then B·low added to y; moves M·(in + 2·out) values. The linear part of the
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
  // parts[i] holds the adapters of linear.parts()[i]. The store is the linear's own: on a GPU or beside it.
  // take_scales sets the scales later, for all layers in one piece.
  using PartAdapters = std::vector<LayerAdapters>;
  AdaptedLinear(const Linear& linear, const PartAdapters& parts, ParamStore& store);

  const Linear& linear() const { return linear_; }
  // Computes the product like a Linear; scratch comes from the stream's arena.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& epilogue) const;

  // For each row of the stacked A: its adapter (null for a row of zeros), and a factor for the adapter's
  // strength, which includes the scale of codes. Call this once, after the values have been filled in.
  struct Row {
    const LowRank* adapter;
    float factor;
  };
  std::vector<Row> take_rows();
  int64_t rank() const { return a_.dim(0); }                    // total rank: the rows of the stacked A
  void take_scales(const Tensor& scales) { scales_ = scales; }  // [rank()] f32, where the linear computes
  // Adds everything on which a recorded product depends, except for the linear itself.
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
  bool codes_ = false;  // says whether a_ holds codes
  Tensor a_;            // [R, in]
  Tensor scales_;       // [R] f32
  std::vector<Part> parts_;
  std::vector<Row> rows_;               // kept until somebody takes them
  std::vector<RoundedWeight> rounded_;  // the codes of each part, kept as long as the rows
};

}  // namespace tachy::nn
