#include "ops/attention/attention_cuts.h"
#include "ops/attention/attention_impl.h"
#include "ops/count_work.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<AttentionArgs>> attention_table() {
  static constexpr Impl<AttentionArgs> table[] = {
      gpu_impl<attention_flash8, attention_why_not_flash8_many_keys>("flash8_sm90"),
      gpu_impl<attention_flash8_sm80, attention_why_not_flash8_sm80_many_keys>("flash8_sm80"),
      gpu_impl<attention_sm90, attention_why_not_sm90_many_keys>("flash_sm90"),
      gpu_impl<attention_ranges_sm90, attention_why_not_ranges_sm90>("ranges_sm90"),
      gpu_impl<attention_blocks_sm90, attention_why_not_blocks_sm90>("blocks_sm90"),
      gpu_impl<attention_blocks8_sm80, attention_why_not_blocks8_sm80_many_keys>("blocks8_sm80"),
      gpu_impl<attention_blocks_sm80, attention_why_not_blocks_sm80>("blocks_sm80"),
      gpu_impl<attention_cuts_sm90, attention_why_not_cuts_sm90>("cuts_sm90"),
      gpu_impl<attention_cuts_sm80, attention_why_not_cuts_sm80>("cuts_sm80"),
      gpu_impl<attention_handful, attention_why_not_handful>("handful"),
      gpu_impl<attention_stays_sm80, attention_why_not_stays_sm80_many_tiles>("flash_stays_sm80"),
      gpu_impl<attention_long_sm80, attention_why_not_long_sm80_many_keys>("flash_long_sm80"),
      gpu_impl<attention_sm80, attention_why_not_sm80_before_library>("flash_sm80_whole"),
      gpu_impl<attention_cudnn, attention_why_not_cudnn>("cudnn"),
      gpu_impl<attention_few_keys, attention_why_not_few_keys>("few_keys"),
      gpu_impl<attention_sm90, attention_why_not_sm90>("flash_sm90_any"),
      gpu_impl<attention_masks_sm90, attention_why_not_masks_sm90>("masks_sm90"),
      gpu_impl<attention_sm80, attention_why_not_sm80>("flash_sm80"),
      gpu_impl<attention_ranges_sm80, attention_why_not_ranges_sm80>("ranges_sm80"),
      gpu_impl<attention_softmax_gemm, attention_why_not_softmax_gemm>("softmax_gemm"),
      gpu_impl<attention_plain_cuda>("cuda_plain"),
      // These are there for the op runner and TACHY_FORCE: small cases, sums that are another GPU's, and v in e4m3.
      gpu_impl<attention_flash8, attention_why_not_flash8>("flash8_sm90_any"),
      gpu_impl<attention_flash8_sm80, attention_why_not_flash8_sm80>("flash8_sm80_any"),
      gpu_impl<attention_flash8_sm80_half, attention_why_not_flash8_sm80>("flash8_sm80_half"),
      gpu_impl<attention_flash8_e4m3, attention_why_not_flash8_e4m3>("flash8_sm89"),
      gpu_impl<attention_stays_sm80, attention_why_not_stays_sm80>("flash_stays_sm80_any"),
      gpu_impl<attention_long_sm80, attention_why_not_long_sm80>("flash_long_sm80_any"),
      gpu_impl<attention_blocks8_sm80, attention_why_not_blocks8_sm80>("blocks8_sm80_any"),
      gpu_impl<attention_blocks8_sm80_half, attention_why_not_blocks8_sm80>("blocks8_sm80_half"),
      {"bf16", attention_why_not_bf16, attention_bf16},
      {"cpu", attention_why_not_cpu, attention_cpu},
      {"ref", nullptr, attention_ref}};
  return table;
}

KeyRanges::KeyRanges(std::initializer_list<KeyRange> ranges) : count_(static_cast<int>(ranges.size())) {
  require(count_ <= kMost, "attention: expected at most {} ranges of keys, got {}", 1 + kMost, 1 + count_);
  std::copy(ranges.begin(), ranges.end(), ranges_.begin());
}

int64_t present_keys(const KeyRange& r) {
  if (!r.length.defined()) return r.k.dims[1];
  const int64_t length = *r.length.as<int32_t>();
  require(length >= 0 && length <= r.k.dims[1], "attention: expected a length in [0, {}], got {}",
          r.k.dims[1], length);
  return length;
}

std::vector<KeyRange> all_ranges(const AttentionArgs& a) {
  std::vector<KeyRange> ranges;
  for (int i = 0; i < a.ranges(); ++i) ranges.push_back(a.range(i));
  return ranges;
}

std::vector<KeyBlock> key_blocks(std::span<const KeyRange> ranges, int64_t size, bool measuring) {
  std::vector<KeyBlock> blocks;
  for (const KeyRange& r : ranges) {
    const int64_t present = measuring ? r.k.dims[1] : present_keys(r);
    for (int64_t first = 0; first < present; first += size)
      blocks.push_back({&r, present, first, std::min(size, present - first)});
  }
  return blocks;
}

int64_t most_keys(const AttentionArgs& a) {
  int64_t most = a.k.dims[1];
  for (int i = 1; i < a.ranges(); ++i) most = std::max(most, a.range(i).k.dims[1]);
  return most;
}

namespace {

void check_range(const char* op, const KeyRange& r, const AttentionArgs& a, DType dtype, DType wide) {
  const int64_t b = a.q.dim(0), lq = a.q.dim(1), h = a.q.dim(2), d = a.q.dim(3);
  expect_real(op, "k", r.k, {b, -1, h, d}, dtype);
  const int64_t lk = r.k.dim(1);
  require(lk >= 1, "{}: expected at least one key, got none", op);
  expect_real(op, "v", r.v, {b, lk, h, d}, dtype);
  if (r.length.defined()) expect_real(op, "length", r.length, {1}, DType::i32);
  if (r.key_bias.defined()) expect_real(op, "key_bias", r.key_bias, {b, lk}, wide);
  require(r.causal || r.causal_offset == 0, "{}: causal_offset {} needs causal", op, r.causal_offset);
  require(r.causal || r.causal_block == 1, "{}: causal_block {} needs causal", op, r.causal_block);
  require(r.window >= 0 && (r.window == 0 || (r.causal && r.causal_block == 1)),
          "{}: expected window 0, or at least 1 with causal and causal_block 1, got {}", op, r.window);
  require(r.causal_offset >= -lq && r.causal_offset <= lk, "{}: expected causal_offset in [{}, {}], got {}",
          op, -lq, lk, r.causal_offset);
  require(r.causal_block >= 1 && r.causal_block <= lk, "{}: expected causal_block in [1, {}], got {}", op, lk,
          r.causal_block);
}

// An upper bound for the (query, key) pairs: lengths on a device are not known here.
double pairs_of(const KeyRange& r, int64_t queries) {
  const int64_t keys = r.k.dim(1);
  if (!r.causal) return static_cast<double>(queries) * static_cast<double>(keys);
  double pairs = 0;
  for (int64_t i = 0; i < queries; ++i)
    pairs += static_cast<double>(std::max<int64_t>(0, visible_keys(r, i, keys) - first_key(r, i)));
  return pairs;
}

}  // namespace

void check_attention(const char* op, const AttentionArgs& a, DType dtype, DType wide) {
  expect_real(op, "q", a.q, {-1, -1, -1, -1}, dtype);
  const int64_t b = a.q.dim(0), lq = a.q.dim(1), h = a.q.dim(2), d = a.q.dim(3);
  for (int i = 0; i < a.ranges(); ++i) check_range(op, a.range(i), a, dtype, wide);
  if (a.bias.defined()) expect_real(op, "bias", a.bias, {h, lq, a.k.dim(1)}, wide);
  require(!a.bias.defined() || a.more.empty(),
          "{}: a bias of each query and key needs one range of keys, got {}", op, a.ranges());
  expect_real(op, "out", a.out, {b, lq, h, d}, dtype);
  if (a.lse.defined()) expect_real(op, "lse", a.lse, {b, h, lq}, wide);
  if (a.blocks.defined()) check_block_lists(op, a);
}

void attention(const AttentionArgs& a, Stream& stream) {
  const char* op = "attention";
  require(a.q.defined(), "{}: expected q, got no tensor", op);
  expect_float_dtype(op, "q", a.q, stream);
  check_attention(op, a, a.q.dtype, DType::f32);
  double pairs = 0;
  if (a.blocks.defined()) {
    expect_here(op, "indices", a.blocks.indices, stream), expect_here(op, "counts", a.blocks.counts, stream);
    for (const Tensor* ends : {&a.blocks.queries.ends, &a.blocks.keys.ends})
      if (ends->defined()) expect_here(op, "ends", *ends, stream);
    if (!stream.measuring() && !stream.gpu) check_listed_blocks(op, a);
    pairs = listed_pairs(a);
  } else {
    for (int i = 0; i < a.ranges(); ++i) pairs += pairs_of(a.range(i), a.q.dim(1));
  }
  const OpWork work{.op = op,
                    .kind = WorkKind::attention,
                    .numbers = a.eight_bits ? DType::i8 : a.q.dtype,
                    .flops = 4.0 * static_cast<double>(a.q.dim(0) * a.q.dim(2) * a.q.dim(3)) * pairs,
                    .bytes = bytes_of({a.q, a.k, a.v, a.bias, a.out})};
  if (count_work(work, stream)) return;
  // TACHY_FORCE=attention8:NAME names the kernel of calls that may round to 8 bits, and leaves the others alone.
  const char* rule = a.eight_bits && forced_impl("attention8") ? "attention8" : op;
  pick<AttentionArgs>(rule, attention_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
