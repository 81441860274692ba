#include "ops/gated_residual/gated_residual_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

constexpr int64_t kChannels = 16;  // channels for which one worker computes the sums over all rows

template <class Store, class Real>
class Definition {
 public:
  explicit Definition(const GatedResidualBackwardArgs& args)
      : a(args), row_(a.row.defined() && a.gate.defined() ? a.row.as<int32_t>() : nullptr) {}

  void row_gradient(int64_t i) const {
    const Store *dy = row_of<Store>(a.dy, i), *gate = row_of<Store>(a.gate, table_row(i));
    Store *dx = row_of<Store>(a.dx, i), *du = row_of<Store>(a.du, i);
    for (int64_t j = 0; j < a.dy.dim(1); ++j) {
      const Store up = dy[j];  // dx may be dy
      if (du) du[j] = static_cast<Store>(Real(gate ? gate[j] : Store(1)) * Real(up));
      if (dx) dx[j] = up;
    }
  }

  // dgate of channels [begin, end); `sums` has room for kChannels values per row of the table.
  void gate_gradient(int64_t begin, int64_t end, Real* sums) const {
    const int64_t tables = a.gate.dim(0), count = end - begin;
    std::fill(sums, sums + tables * kChannels, Real(0));
    for (int64_t i = 0; i < a.dy.dim(0); ++i) {
      const Store *dy = row_of<Store>(a.dy, i) + begin, *u = row_of<Store>(a.u, i) + begin;
      Real* sum = sums + table_row(i) * kChannels;
      for (int64_t j = 0; j < count; ++j) sum[j] += Real(dy[j]) * Real(u[j]);
    }
    for (int64_t r = 0; r < tables; ++r)
      for (int64_t j = 0; j < count; ++j)
        row_of<Store>(a.dgate, r)[begin + j] = static_cast<Store>(sums[r * kChannels + j]);
  }

 private:
  int64_t table_row(int64_t i) const { return row_ ? row_[i] : 0; }

  const GatedResidualBackwardArgs& a;
  const int32_t* row_;
};

// The sums come first, because du may be u.
template <class Store, class Real>
void define(const GatedResidualBackwardArgs& a, Stream& stream) {
  const int64_t m = a.dy.dim(0), c = a.dy.dim(1);
  const int64_t sums = a.dgate.defined() ? a.gate.dim(0) * kChannels : 0;
  ArenaScope scope(*stream.arena);
  auto* scratch =
      static_cast<Real*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * sums) * sizeof(Real)));
  if (stream.measuring()) return;
  const Definition<Store, Real> definition(a);
  if (sums)
    parallel_ranges(stream, c, kChannels, [&](int64_t begin, int64_t end, int worker) {
      definition.gate_gradient(begin, end, scratch + worker * sums);
    });
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) definition.row_gradient(i);
  });
}

}  // namespace

void gated_residual_backward_ref(const GatedResidualBackwardArgs& args, Stream& stream) {
  with_store(args.dy, [&]<class Store>() { define<Store, double>(args, stream); });
}
void gated_residual_backward_working(const GatedResidualBackwardArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
