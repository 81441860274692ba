// ParamStore: the memory of a loaded component besides its mapped file (packed weights, vectors widened to
// float32, tables, caches), on the host or on the stream's GPU. On a measuring stream nothing is allocated or
// computed but only counted, so the same constructors tell the exact number of bytes before anything is
// loaded.
//
// A model of many equal blocks builds each inside a BlockScope. Options::streamed is the number of blocks
// that are kept page-locked on the host, with the bytes and the order that they have on the device. They pass
// through two slots there (runtime/block_stream.h), and their tensors are views of the slots.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/block_stream.h"
#include "tensor/buffer_shelf.h"
#include "tensor/stream.h"
#include "weights/derived_tensor.h"

namespace tachy::nn {

// A weight as a file gives it: either its values, or an object that makes them.
struct WeightPart {
  Tensor tensor;  // [out, in]; if derived, only the shape and the dtype in which its values are kept
  std::shared_ptr<const DerivedTensor> derived = {};
};

// Decodes rows [first, first + to.dim(0)) of a derived weight into host memory `to` of any float dtype.
void decode_weight(const WeightPart& weight, int64_t first, const Tensor& to, ThreadPool& pool);

// Converts a contiguous tensor of a file into host memory `to` of any float dtype. Any thread may call it.
void convert_weight(const Tensor& source, const Tensor& to, ThreadPool& pool);

class LinearRegistry;  // nn/linear_registry.h

// The Buffers of a store, which the component that uses its tensors keeps.
struct KeptParams {
  std::vector<Buffer> buffers;           // one for each tensor, or one for all of a copy
  std::vector<std::span<char>> tensors;  // the memory of each, in the order in which they were allocated
  std::vector<Buffer> beside;            // those of layers that the host computes beside a GPU
};

class ParamStore {
 public:
  struct Options {
    // Counts memory without allocating it. If not set, this depends on whether the stream measures.
    std::optional<bool> plan_only = {};
    // Packs GEMM weights once while loading; otherwise they are used where they lie in the file.
    bool pack_weights = true;
    int64_t streamed = 0;  // number of blocks that do not stay on the device; with 0, all stay
    bool visits = true;  // layers that set_visiting names stay in the file; otherwise they lie on the device
    // Called with the number of blocks loaded.
    std::function<void(int64_t done, int64_t total)> progress = {};
    BufferShelf* shelf = nullptr;  // owns the Buffers; if null, the store does
    // The tensors of a complete store that was built alike on another device: keep() copies them into one Buffer, and
    // nothing is read from the file. It cannot be used with a shelf or streamed blocks.
    std::shared_ptr<const KeptParams> twin = nullptr;
  };

  ParamStore(Options options, Stream& stream);

  bool plan_only() const { return plan_only_; }
  // Says whether keep() fills all tensors with another store's, so that nothing else need fill them.
  bool copies() const { return options_.twin && !plan_only_; }
  bool pack_weights() const { return options_.pack_weights; }
  bool on_gpu() const { return stream_.gpu != nullptr; }
  Stream& stream() const { return stream_; }
  size_t bytes() const { return bytes_; }              // total size of all Buffers made or counted
  size_t host_bytes() const { return host_bytes_; }    // size of the streamed blocks on the host
  size_t block_bytes() const { return block_bytes_; }  // size of a block, or of the largest streamed one
  int64_t blocks() const { return blocks_; }

  // Returns uninitialised memory where the stream computes; when planning, a planned_address.
  Tensor allocate(DType dtype, std::span<const int64_t> dims);
  Tensor allocate(DType dtype, std::initializer_list<int64_t> dims) {
    return allocate(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }
  // Says whether tensors of this store still hold what a store before it, with the same shelf, filled them with under
  // this name. If not, the caller must fill them.
  bool holds(std::initializer_list<Tensor> tensors, const std::string& name);
  Tensor widened(const Tensor& source);              // float32 copy of a small tensor of the file, same shape
  Tensor packed(std::span<const WeightPart> parts);  // GEMM weights [N_i, K], stacked and packed as one
  // Uploads a table that the host has made.
  Tensor uploaded(const void* host, DType dtype, std::initializer_list<int64_t> dims);

  // Converts a tensor of the file, of any float dtype, into `to`, which lies where the stream computes.
  void fill(const Tensor& to, const Tensor& source) { fill(to, WeightPart{source}); }
  void fill(const Tensor& to, const WeightPart& source);

  // Rounds a matrix of a file to 8-bit codes with a scale per row (ops/quantize) on the stream's device. The
  // rows are sent there as they are in the file. codes [rows, width] are f8_e4m3 or i8, scales [rows, 1] f32.
  // It needs TACHY_ROUND_WEIGHTS, a device, values of float32 or 16 bits, and a block that is not streamed
  // (the host keeps the codes of streamed ones). Otherwise it does nothing and returns false. Until the store
  // is destroyed, it takes up to 256 MiB of the device, which no plan counts.
  bool fill_rounded(const Tensor& codes, const Tensor& scales, const WeightPart& source);

  // Collects the tensors outside a model's blocks that body() fills on a device, until there are enough to
  // keep all threads busy. When it returns, all are filled. Their sources must live until then.
  void fill_together(const std::function<void()>& body);

  // Returns the store for layers that the host computes beside a GPU. Their weights stay in the file, and
  // their bytes are not counted. On the CPU it is this store itself.
  ParamStore& beside();

  // Tells by the names in the checkpoint which linear layers multiply in the stream's Precision::products. By
  // default none do, and layers beside a GPU never do.
  void set_eight_bits(std::function<bool(std::string_view layer)> which) { eight_bits_ = std::move(which); }
  bool eight_bits(std::string_view layer) const {
    return in_eight_bits(stream_.precision.products) && eight_bits_ && eight_bits_(layer);
  }

  // Tells which linear layers are used only a few times in a run and not in each step. The large ones stay in
  // the file and are sent to the device for each product, unless Options::visits is off. By default there are
  // none.
  void set_visiting(std::function<bool(std::string_view layer)> which) { visiting_ = std::move(which); }
  bool visiting(std::string_view layer) const { return options_.visits && visiting_ && visiting_(layer); }

  // The linear layers that were built in this store (or beside it) since the last take_linears(). A model's
  // constructor calls that at its end to keep them.
  LinearRegistry& linears() { return *linears_; }
  std::shared_ptr<const LinearRegistry> take_linears();

  // Hands all Buffers, including those of beside(), over to the component that keeps the tensors. With a twin it
  // queues the copies, and throws `internal` if the twin has other Buffers.
  std::shared_ptr<const KeptParams> keep();

  // Call this before a model's blocks are built. `probe` builds block i in the store that it is given. It is
  // needed because files keep some blocks in fewer bytes than others, and a slot must hold the largest.
  // Returns null if all blocks stay on the device, otherwise the object that a forward pass informs of its
  // progress.
  std::shared_ptr<runtime::BlockStream> stream_blocks(
      int64_t blocks, const std::function<void(ParamStore&, int64_t i)>& probe);
  // Lives while block i is constructed.
  class BlockScope {
   public:
    BlockScope(ParamStore& store, int64_t i);
    void done();  // call this when the block was built without an error
    ~BlockScope() { store_.end_block(); }
    BlockScope(const BlockScope&) = delete;
    BlockScope& operator=(const BlockScope&) = delete;

   private:
    ParamStore& store_;
    int64_t i_;
    size_t before_;
  };

 private:
  void end_block();
  StreamingMemory::MakePiece pieces_of(const Tensor& to, const WeightPart& source);
  bool defer(const Tensor& to, const WeightPart& source);
  void send_deferred();
  void send_rounded();
  void make_room_for_rounding(size_t free);
  void* place_of_copy(size_t bytes);
  void copy_twin();
  void* host_of(const Tensor& t) const;  // where the host writes a tensor of the open block, or null

  Options options_;
  bool plan_only_;
  Stream& stream_;
  size_t bytes_ = 0, host_bytes_ = 0, block_bytes_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<std::span<char>> tensors_;  // of the Buffers, in this order
  size_t copied_ = 0;                     // bytes of a copy's Buffer that its tensors take
  int64_t blocks_ = 0;
  std::shared_ptr<runtime::BlockStream> block_stream_;
  bool in_streamed_ = false;                 // says whether a streamed block is being built
  char *slot_ = nullptr, *image_ = nullptr;  // memory of that block
  size_t used_ = 0;                          // the part of it that is used
  std::function<bool(std::string_view)> eight_bits_, visiting_;
  // Tensors of blocks wait here until there are enough of them to keep all threads reading.
  struct Deferred {
    Tensor to;
    WeightPart source;
  };
  std::vector<Deferred> deferred_;
  struct Rounded {
    Tensor codes, scales, source;
  };
  std::vector<Rounded> rounded_;  // these wait, too
  Buffer rounding_;               // rows on the device that are about to be rounded
  size_t deferred_bytes_ = 0;
  bool in_block_ = false;
  std::shared_ptr<LinearRegistry> linears_;
  struct Beside;
  std::shared_ptr<Beside> beside_;
};

}  // namespace tachy::nn
