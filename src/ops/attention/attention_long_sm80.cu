// Attention of many keys in bf16 by flash_long_sm80.cuh, for every GPU since sm_80 and head dims up to 64 and
// up to 128.
#include "ops/attention/flash_again.cuh"
#include "ops/attention/flash_long_sm80.cuh"
#include "ops/attention/flash_params.cuh"

namespace tachy::ops {
namespace {

// With 1,024 keys what a block's 256 queries cost at its beginning and end makes it 1 to 3 % slower than flash_sm80
// on a Hopper, with 2,048 it is 2 to 4 % faster.
constexpr int64_t kLeastKeys = 2048;
// Stages of 128 keys are faster by 3 %, where a block may have that much shared memory.
using Small = flash::LongTile<64>;
using Large = flash::LongTile<128>;
using Narrow = flash::LongTile<128, 12, 64>;  // head dims up to 64, for all cards

template <class C>
void run(const AttentionArgs& a, Stream& stream) {
  const int64_t heads = a.q.dims[0] * a.q.dims[2], tiles = (a.q.dims[1] + C::kRows - 1) / C::kRows;
  ArenaScope scope(*stream.arena);
  auto* bad = static_cast<uint8_t*>(stream.arena->bytes(static_cast<size_t>(heads * tiles * C::kWarps)));
  if (stream.measuring()) return;
  const float factor = a.scale == kPowersOfTwo ? 1 : a.scale * flash::kLog2e;
  cuda::launch(
      "attention (flash_long_sm80)", flash::long_attention_kernel<C>,
      {.grid = dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(heads)),
       .block = dim3(C::kThreads),
       .shared_bytes = C::kSharedBytes},
      stream,
      flash::ByteParams{.to = flash::params_of(a), .bad = bad, .heads = static_cast<int>(a.q.dims[2])},
      factor);
  flash::compute_again(a, {.bad = bad, .tiles = static_cast<int>(tiles), .warps = C::kWarps}, stream);
}

}  // namespace

std::optional<Refusal> attention_why_not_long_sm80(const AttentionArgs& a, const Stream& stream) {
  if (auto why = why_not_whole(a)) return why;
  if (auto why = flash::why_not_masked(a)) return why;
  if (a.bias.defined()) return Refusal::arguments("a bias of each query and key");
  if (a.accumulate) return Refusal::arguments("an accumulating output");
  if (a.lse.defined())
    return Refusal::arguments("an lse, for which its sums of rounded weights are too coarse");
  if (a.q.dtype != DType::bf16) return Refusal::arguments("activations that are not bf16");
  if (a.q.dims[0] * a.q.dims[2] > 65535) return Refusal::arguments("too many heads");
  if (a.q.dims[1] > flash::kMostQueries) return Refusal::arguments("too many queries");
  return flash::why_not(a, stream, a.q.dims[3] <= 64 ? Narrow::kSharedBytes : Small::kSharedBytes);
}

std::optional<Refusal> attention_why_not_long_sm80_many_keys(const AttentionArgs& a, const Stream& stream) {
  if (auto why = attention_why_not_long_sm80(a, stream)) return why;
  if (auto why = flash::why_library_first(a, stream)) return why;
  if (a.k.dims[1] < kLeastKeys)
    return Refusal::slower("there are fewer keys than ", std::to_string(kLeastKeys));
  return std::nullopt;
}

void attention_long_sm80(const AttentionArgs& a, Stream& stream) {
  if (a.q.dims[3] <= 64) return run<Narrow>(a, stream);
  stream.gpu->info().shared_bytes >= Large::kSharedBytes ? run<Large>(a, stream) : run<Small>(a, stream);
}

}  // namespace tachy::ops
