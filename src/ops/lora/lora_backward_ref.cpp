// The definition of the adapters' backward pass. First it computes u = x · Aᵀ and v = dy · B for every row,
// then each gradient as a separate sum over the rows in their order.
#include "ops/lora/lora_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
class BackwardDefinition {
 public:
  BackwardDefinition(const LoraBackwardArgs& args, Real* u, Real* v)
      : a(args),
        m_(a.x.dim(0)),
        k_(a.x.dim(1)),
        n_(a.b.dim(1)),
        rank_(a.a.dim(1)),
        adapters_(a.a.dim(0)),
        u_(u),
        v_(v) {}

  // Whether row m goes through adapter i.
  bool uses(int64_t m, int64_t i) const { return !a.index.defined() || a.index.as<int32_t>()[m] == i; }

  // Computes u and v of row m, and its dx.
  void row(int64_t m) const {
    const Store *x = row_of<Store>(a.x, m), *dy = row_of<Store>(a.dy, m);
    for (int64_t i = 0; i < adapters_; ++i)
      for (int64_t j = 0; uses(m, i) && j < rank_; ++j) {
        const Store* from = lora_row<Store>(a.a, i, j);
        Real u = 0, v = 0;
        for (int64_t k = 0; k < k_; ++k) u += Real(x[k]) * Real(from[k]);
        for (int64_t o = 0; o < n_; ++o) v += Real(dy[o]) * Real(lora_row<Store>(a.b, i, o)[j]);
        u_[at(m, i, j)] = u, v_[at(m, i, j)] = v;
      }
    if (!a.dx.defined()) return;
    for (int64_t k = 0; k < k_; ++k) {
      Real sum = 0;
      for (int64_t i = 0; i < adapters_; ++i)
        for (int64_t j = 0; uses(m, i) && j < rank_; ++j)
          sum += scale(i) * v_[at(m, i, j)] * Real(lora_row<Store>(a.a, i, j)[k]);
      row_of<Store>(a.dx, m)[k] = static_cast<Store>(sum);
    }
  }

  // Computes row j of adapter i's dA and column j of its dB; `sums` has room for max(K, N) values.
  void weights(int64_t i, int64_t j, Real* sums) const {
    const auto sum_rows = [&](const Real* low, const Tensor& values, int64_t count, auto&& store) {
      std::fill(sums, sums + count, Real(0));
      for (int64_t m = 0; m < m_; ++m) {
        if (!uses(m, i)) continue;
        const Store* row = row_of<Store>(values, m);
        for (int64_t c = 0; c < count; ++c) sums[c] += low[at(m, i, j)] * Real(row[c]);
      }
      for (int64_t c = 0; c < count; ++c) store(c, static_cast<Store>(scale(i) * sums[c]));
    };
    if (a.da.defined())
      sum_rows(v_, a.x, k_, [&](int64_t k, Store value) { lora_row<Store>(a.da, i, j)[k] = value; });
    if (a.db.defined())
      sum_rows(u_, a.dy, n_, [&](int64_t o, Store value) { lora_row<Store>(a.db, i, o)[j] = value; });
  }

  void scale_gradient(int64_t i) const {
    Real sum = 0;
    for (int64_t m = 0; m < m_; ++m)
      for (int64_t j = 0; uses(m, i) && j < rank_; ++j) sum += u_[at(m, i, j)] * v_[at(m, i, j)];
    static_cast<Store*>(a.dscales.data)[i] = static_cast<Store>(sum);
  }

 private:
  // Where value j of adapter i lies for row m. With an index, a row has values of only one adapter.
  int64_t at(int64_t m, int64_t i, int64_t j) const {
    return a.index.defined() ? m * rank_ + j : (m * adapters_ + i) * rank_ + j;
  }
  Real scale(int64_t i) const {
    return a.scales.defined() ? Real(static_cast<const Store*>(a.scales.data)[i]) : Real(1);
  }

  const LoraBackwardArgs& a;
  const int64_t m_, k_, n_, rank_, adapters_;
  Real *u_, *v_;
};

template <class Store, class Real>
void define(const LoraBackwardArgs& a, Stream& stream) {
  const int64_t m = a.x.dim(0), adapters = a.a.dim(0), rank = a.a.dim(1);
  const int64_t low = m * rank * (a.index.defined() ? 1 : adapters), most = std::max(a.x.dim(1), a.b.dim(1));
  ArenaScope scope(*stream.arena);
  const auto make = [&](int64_t count) {
    return static_cast<Real*>(stream.arena->bytes(static_cast<size_t>(count) * sizeof(Real)));
  };
  Real *u = make(low), *v = make(low), *sums = make(stream.threads() * most);
  if (stream.measuring()) return;
  const BackwardDefinition<Store, Real> definition(a, u, v);
  parallel_ranges(stream, m, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) definition.row(i);
  });
  if (a.da.defined() || a.db.defined())
    parallel_ranges(stream, adapters * rank, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t t = begin; t < end; ++t) definition.weights(t / rank, t % rank, sums + worker * most);
    });
  for (int64_t i = 0; a.dscales.defined() && i < adapters; ++i) definition.scale_gradient(i);
}

}  // namespace

void lora_backward_ref(const LoraBackwardArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void lora_backward_working(const LoraBackwardArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
