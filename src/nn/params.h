// ParamStore: the memory that a loaded component owns besides its mapped file (packed weights, vectors
// widened to float32, tables, caches), on the host or on the stream's GPU. On a measuring stream nothing is
// allocated or computed, only counted: the same constructors then tell the exact number of bytes before
// anything is loaded.
//
// A model of many equal blocks builds each inside a BlockScope. With Options::streamed blocks that many of
// them then go to the host, page-locked, in the bytes and the order they have on the device, and pass through
// two slots there (runtime/block_stream.h); their tensors lie in the slots.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/block_stream.h"
#include "tensor/buffer_shelf.h"
#include "tensor/stream.h"
#include "weights/derived_tensor.h"

namespace tachy::nn {

// A weight as a file gives it: its values, or what makes them.
struct WeightPart {
  Tensor tensor;  // [out, in]; derived: only its shape, and the dtype that its values are kept in
  std::shared_ptr<const DerivedTensor> derived = {};
};

// Rows [first, first + to.dim(0)) of a weight that is derived into host memory `to` of any float dtype.
void decode_weight(const WeightPart& weight, int64_t first, const Tensor& to, ThreadPool& pool);

// A contiguous tensor of a file into host memory `to` of any float dtype; callable from any thread.
void convert_weight(const Tensor& source, const Tensor& to, ThreadPool& pool);

class LinearRegistry;  // nn/linear_registry.h

class ParamStore {
 public:
  struct Options {
    std::optional<bool> plan_only =
        {};  // nothing is allocated, only counted; left out: where the stream measures
    bool pack_weights =
        true;              // pack GEMM weights once at load; otherwise use them where they lie in the file
    int64_t streamed = 0;  // blocks that do not stay on the device; 0: all stay
    std::function<void(int64_t done, int64_t total)> progress = {};  // blocks loaded
    BufferShelf* shelf = nullptr;  // whose Buffers they are, if not the store's own
  };

  ParamStore(Options options, Stream& stream);

  bool plan_only() const { return plan_only_; }
  bool pack_weights() const { return options_.pack_weights; }
  bool on_gpu() const { return stream_.gpu != nullptr; }
  Stream& stream() const { return stream_; }
  size_t bytes() const { return bytes_; }              // of all Buffers made (or counted)
  size_t host_bytes() const { return host_bytes_; }    // of streamed blocks, on the host
  size_t block_bytes() const { return block_bytes_; }  // of one block, the largest where they are streamed
  int64_t blocks() const { return blocks_; }

  // Uninitialised storage where the stream computes; when planning, a planned_address.
  Tensor allocate(DType dtype, std::span<const int64_t> dims);
  Tensor allocate(DType dtype, std::initializer_list<int64_t> dims) {
    return allocate(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }
  Tensor widened(const Tensor& source);  // float32 copy of a small tensor of the file, same shape
  Tensor packed(
      std::span<const WeightPart> parts);  // GEMM weights [N_i, K], one below another, packed as one
  Tensor uploaded(const void* host, DType dtype,
                  std::initializer_list<int64_t> dims);  // a table made on the host

  // A tensor of the file (any float dtype) into `to`,
  // converted on the way; `to` lies where the stream computes.
  void fill(const Tensor& to, const Tensor& source) { fill(to, WeightPart{source}); }
  void fill(const Tensor& to, const WeightPart& source);

  // A matrix of a file as codes of 8 bits with a scale a row (ops/quantize), made where the stream computes: its rows go there as
  // the file has them. codes [rows, width] f8_e4m3 or i8, scales [rows, 1] f32. Only on a device, from float32 or 16 bits, where
  // TACHY_ROUND_WEIGHTS asks for it, and not in streamed blocks, whose codes the host keeps; false otherwise, and nothing
  // was done. Takes up to 256 MiB of the device besides, which no plan counts, for as long as the store lives.
  bool fill_rounded(const Tensor& codes, const Tensor& scales, const WeightPart& source);

  // body() fills tensors for a device outside of a model's blocks: they wait until there are enough of them to keep all
  // threads at work, and are all there at its end. What they are made of must live as long.
  void fill_together(const std::function<void()>& body);

  // The store of what the host computes beside a GPU: its weights stay where they lie in the file, and its
  // bytes are not counted. On the CPU, this store itself.
  ParamStore& beside();

  // Which linear layers, by their names in the checkpoint, multiply in the stream's Precision::products. None
  // unless a model says so; never those beside a GPU.
  void set_eight_bits(std::function<bool(std::string_view layer)> which) { eight_bits_ = std::move(which); }
  bool eight_bits(std::string_view layer) const {
    return in_eight_bits(stream_.precision.products) && eight_bits_ && eight_bits_(layer);
  }

  // Which linear layers are asked a few times in a run and not in each step: large ones stay in the file and come to the
  // device for each product. None unless a model says so.
  void set_visiting(std::function<bool(std::string_view layer)> which) { visiting_ = std::move(which); }
  bool visiting(std::string_view layer) const { return visiting_ && visiting_(layer); }

  // The linear layers built in this store (or beside it) since the last take_linears(), which a model's
  // constructor calls at its end to keep them.
  LinearRegistry& linears() { return *linears_; }
  std::shared_ptr<const LinearRegistry> take_linears();

  // Moves ownership of all Buffers out, those of beside() too, for the component that keeps the tensors.
  std::shared_ptr<const void> keep();

  // Before a model's blocks are built: `probe` builds block i in the store it is given. Files keep some blocks
  // in fewer bytes than others; a slot holds the largest. Null when all blocks stay on the device; otherwise
  // what a forward pass tells where it is.
  std::shared_ptr<runtime::BlockStream> stream_blocks(
      int64_t blocks, const std::function<void(ParamStore&, int64_t i)>& probe);
  // Around the construction of block i.
  class BlockScope {
   public:
    BlockScope(ParamStore& store, int64_t i);
    void done();  // built without an error
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
  void* host_of(const Tensor& t) const;  // where a tensor of the open block is written on the host, or null

  Options options_;
  bool plan_only_;
  Stream& stream_;
  size_t bytes_ = 0, host_bytes_ = 0, block_bytes_ = 0;
  std::vector<Buffer> buffers_;
  int64_t blocks_ = 0;
  std::shared_ptr<runtime::BlockStream> block_stream_;
  bool in_streamed_ = false;                 // a streamed block is being built
  char *slot_ = nullptr, *image_ = nullptr;  // of that block
  size_t used_ = 0;                          // of that block
  std::function<bool(std::string_view)> eight_bits_, visiting_;
  // The tensors of blocks wait here until there are enough of them to keep all threads reading.
  struct Deferred {
    Tensor to;
    WeightPart source;
  };
  std::vector<Deferred> deferred_;
  struct Rounded {
    Tensor codes, scales, source;
  };
  std::vector<Rounded> rounded_;  // likewise
  Buffer rounding_;               // of rows on the device that are about to be rounded
  size_t deferred_bytes_ = 0;
  bool in_block_ = false;
  std::shared_ptr<LinearRegistry> linears_;
  struct Beside;
  std::shared_ptr<Beside> beside_;
};

}  // namespace tachy::nn
