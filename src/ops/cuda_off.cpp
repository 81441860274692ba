// Launchers of a build without CUDA: never reached, since no stream has a GPU, but the tables name them.
#include "ops/add_rows/add_rows_impl.h"
#include "ops/position_bias/position_bias_impl.h"

namespace tachy::ops {
namespace {

[[noreturn]] void no_cuda() { fail(ErrorCode::unsupported, "this build has no CUDA"); }

}  // namespace

void add_rows_cuda(const AddRowsArgs&, Stream&) { no_cuda(); }
void position_bias_cuda(const PositionBiasArgs&, Stream&) { no_cuda(); }

}  // namespace tachy::ops
