#include "nn/params.h"

#include <algorithm>
#include <utility>

#include "nn/linear_registry.h"
#include "ops/gemm/gemm.h"
#include "tensor/transfer.h"

namespace tachy::nn {
namespace {

// The tensors of blocks are sent to a device together, about this many bytes at a time.
constexpr size_t kSendBytes = size_t{768} << 20;
constexpr int64_t kSmallBytes = int64_t{64} << 10;

}  // namespace

ParamStore::ParamStore(Options options, Stream& stream)
    : options_(std::move(options)),
      plan_only_(options_.plan_only.value_or(stream.measuring())),
      stream_(stream),
      linears_(std::make_shared<LinearRegistry>()) {}

Tensor ParamStore::allocate(DType dtype, std::span<const int64_t> dims) {
  const Tensor planned(planned_address(bytes_), dtype, dims, Device::null);
  const auto size = static_cast<size_t>(planned.bytes());
  const size_t taken = align_up(size ? size : 1);
  if (in_streamed_) {
    char* at = slot_ ? slot_ + used_ : nullptr;
    used_ += taken;
    check(used_ <= block_bytes_, ErrorCode::internal, "params: a block of {} bytes, the largest had {}",
          used_, block_bytes_);
    return at ? Tensor(at, dtype, dims, stream_.memory->device()) : planned;
  }
  bytes_ += taken;
  if (plan_only_) return planned;
  if (options_.shelf) return options_.shelf->take(size, stream_.memory).tensor(dtype, dims);
  void* const at = options_.twin ? place_of_copy(size) : buffers_.emplace_back(size, stream_.memory).data();
  tensors_.emplace_back(static_cast<char*>(at), size);
  return Tensor(at, dtype, dims, stream_.memory ? stream_.memory->device() : Device::cpu);
}

bool ParamStore::holds(std::initializer_list<Tensor> tensors, const std::string& name) {
  bool all = options_.shelf && !plan_only_;
  for (const Tensor& t : tensors) all = options_.shelf && options_.shelf->holds(t.data, name) && all;
  return all;
}

void* ParamStore::host_of(const Tensor& t) const {
  const auto* p = static_cast<const char*>(t.data);
  if (!slot_ || p < slot_ || p >= slot_ + block_bytes_) return nullptr;
  return image_ + (p - slot_);
}

void ParamStore::fill(const Tensor& to, const WeightPart& source) {
  check(to.numel() == source.tensor.numel() && to.contiguous() && source.tensor.contiguous(),
        ErrorCode::internal, "params: {} into {}", shape_string(source.tensor), shape_string(to));
  if (plan_only_) return;
  stream_.throw_if_cancelled();
  ThreadPool& pool = *stream_.pool;
  StreamingMemory* memory = StreamingMemory::of(stream_.memory);
  check(memory || !stream_.memory, ErrorCode::internal, "params: a device that takes no weights");
  void* const image = host_of(to);
  if (memory && memory->uploaded && !source.derived) memory->uploaded({to, source.tensor, image});
  if (options_.twin) return;
  const auto on_host = [&](const Tensor& out) {
    if (source.derived) return decode_weight(source, 0, out, pool);
    convert_weight(source.tensor, out, pool);
  };
  if (image) return on_host(Tensor(image, to.dtype, to.shape()));
  if (!memory) return on_host(to);
  if (defer(to, source)) return;
  memory->upload_pieces(to.data, static_cast<size_t>(to.bytes()), pieces_of(to, source));
}

StreamingMemory::MakePiece ParamStore::pieces_of(const Tensor& to, const WeightPart& source) {
  return [this, to, source](void* piece, size_t begin, size_t bytes) {
    stream_.throw_if_cancelled();  // a slow disk may take long over a piece, and there may be many pieces
    const auto size = static_cast<size_t>(dtype_size(to.dtype));
    const auto n = static_cast<int64_t>(bytes / size), first = static_cast<int64_t>(begin / size);
    const Tensor out(piece, to.dtype, {n});
    if (!source.derived) return convert_weight(source.tensor.flat(first, n), out, *stream_.pool);
    decode_values(*source.derived, source.tensor.numel() / source.tensor.dim(0), first, out);
  };
}

bool ParamStore::defer(const Tensor& to, const WeightPart& source) {
  if (!in_block_) return false;
  deferred_.push_back({to, source});
  deferred_bytes_ += static_cast<size_t>(to.bytes());
  return true;
}

void ParamStore::fill_together(const std::function<void()>& body) {
  struct Open {
    explicit Open(ParamStore& s) : store(s) { store.in_block_ = true; }
    ~Open() {
      store.in_block_ = false;
      store.deferred_.clear(), store.rounded_.clear(), store.deferred_bytes_ = 0;
    }
    ParamStore& store;
  } const open(*this);
  body();
  send_deferred();
}

// Small tensors are sent last, because scales are known once the codes of their rows have been made. They
// would otherwise be computed twice.
void ParamStore::send_deferred() {
  send_rounded();
  std::ranges::stable_partition(deferred_, [](const Deferred& d) { return d.to.bytes() >= kSmallBytes; });
  std::vector<StreamingMemory::Upload> uploads;
  for (const auto& [to, source] : deferred_)
    uploads.push_back({to.data, static_cast<size_t>(to.bytes()), pieces_of(to, source)});
  deferred_.clear(), deferred_bytes_ = 0;
  if (!uploads.empty()) StreamingMemory::of(stream_.memory)->upload_all(uploads, *stream_.pool);
}

Tensor ParamStore::widened(const Tensor& source) {
  const Tensor out = allocate(DType::f32, source.shape());
  fill(out, source);
  return out;
}

Tensor ParamStore::uploaded(const void* host, DType dtype, std::initializer_list<int64_t> dims) {
  const Tensor out = allocate(dtype, dims);
  if (!options_.twin) upload(host, out, stream_);
  return out;
}

Tensor ParamStore::packed(std::span<const WeightPart> parts) {
  int64_t rows = 0;
  std::vector<Tensor> tensors;
  std::vector<std::unique_ptr<uint8_t[]>> decoded;  // only needed until they are packed
  for (const WeightPart& part : parts) {
    tensors.push_back(part.tensor);
    rows += part.tensor.dim(0);
    if (!part.derived || plan_only_ || options_.twin) continue;
    decoded.push_back(std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(part.tensor.bytes())));
    tensors.back() = Tensor(decoded.back().get(), part.tensor.dtype, part.tensor.shape());
    decode_weight(part, 0, tensors.back(), *stream_.pool);
  }
  const Tensor out =
      allocate(DType::u8, {ops::packed_gemm_bytes(rows, tensors.front().dim(1), stream_.precision.compute)});
  if (options_.twin) return out;
  void* host = host_of(out);
  ops::pack_gemm_weight(tensors, host ? Tensor(host, DType::u8, out.shape()) : out, stream_);
  return out;
}

std::shared_ptr<runtime::BlockStream> ParamStore::stream_blocks(
    int64_t blocks, const std::function<void(ParamStore&, int64_t)>& probe) {
  blocks_ = blocks;
  if (options_.streamed == 0) return nullptr;
  Arena measure;
  Stream dry = stream_;
  dry.arena = &measure;
  for (int64_t i = 0; i < blocks; ++i) {
    ParamStore one({.pack_weights = options_.pack_weights, .visits = options_.visits}, dry);
    one.eight_bits_ = eight_bits_, one.visiting_ = visiting_;
    probe(one, i);
    block_bytes_ = std::max(block_bytes_, one.bytes());
  }
  const auto bytes = static_cast<int64_t>(block_bytes_);
  host_bytes_ = static_cast<size_t>(options_.streamed) * block_bytes_;
  const Tensor slots = allocate(DType::u8, {2, bytes});
  if (plan_only_) return nullptr;
  check(StreamingMemory::of(stream_.memory) != nullptr, ErrorCode::internal,
        "params: blocks are streamed to a device only");
  block_stream_ = std::make_shared<runtime::BlockStream>(*stream_.memory, blocks, options_.streamed, slots);
  return block_stream_;
}

ParamStore::BlockScope::BlockScope(ParamStore& store, int64_t i)
    : store_(store), i_(i), before_(store.bytes_) {
  store.in_block_ = true;
  if (store.options_.streamed == 0 ||
      runtime::BlockStream::rank_of(i, store.blocks_, store.options_.streamed) < 0)
    return;
  store.in_streamed_ = true, store.used_ = 0;
  if (!store.block_stream_) return;
  store.slot_ = store.block_stream_->slot(i), store.image_ = store.block_stream_->image(i);
}

void ParamStore::BlockScope::done() {
  if (i_ + 1 == store_.blocks_ || store_.deferred_bytes_ >= kSendBytes) store_.send_deferred();
  if (store_.block_stream_ && store_.in_streamed_) store_.block_stream_->loaded(i_);
  if (!store_.in_streamed_) store_.block_bytes_ = std::max(store_.block_bytes_, store_.bytes_ - before_);
  if (store_.options_.progress) store_.options_.progress(i_ + 1, store_.blocks_);
}

void ParamStore::end_block() { in_block_ = in_streamed_ = false, slot_ = image_ = nullptr; }

struct ParamStore::Beside {
  Arena none{0};
  Stream host;
  ParamStore store;

  Beside(bool plan_only, ThreadPool* pool, std::shared_ptr<LinearRegistry> linears)
      : host{.arena = &none, .pool = pool}, store({.plan_only = plan_only, .pack_weights = false}, host) {
    store.linears_ = std::move(linears);
  }
};

ParamStore& ParamStore::beside() {
  if (!on_gpu()) return *this;
  if (!beside_) beside_ = std::make_shared<Beside>(plan_only_, stream_.pool, linears_);
  return beside_->store;
}

std::shared_ptr<const LinearRegistry> ParamStore::take_linears() {
  auto taken = std::exchange(linears_, std::make_shared<LinearRegistry>());
  if (beside_) beside_->store.linears_ = linears_;
  return taken;
}

std::shared_ptr<const KeptParams> ParamStore::keep() {
  if (copies()) copy_twin();
  auto all = std::make_shared<KeptParams>();
  all->buffers = std::move(buffers_), all->tensors = std::move(tensors_);
  if (beside_) all->beside = std::move(beside_->store.buffers_);
  return all;
}

}  // namespace tachy::nn
