// How the ranks of a run exchange tensors. Each rank runs the model's code for its share of the work on its
// own device, and all ranks of a communicator make the same calls in the same order. Exchanges move tensors
// but never add them up, so a run gives the same bits with any number of ranks.
//
// Tensors are contiguous and on the stream's device; an exchange is queued there like an op. In a measure run
// shapes are checked and nothing moves. The ranks of a ThreadComm (thread_comm.h) are threads of this
// process on the CPU, those of a PeerComm (peer_comm.h) are threads with a GPU each.
#pragma once

#include <algorithm>
#include <span>

#include "tensor/stream.h"

namespace tachy::runtime {

// The name under which a measure run counts what a rank sends to the others in one exchange, a transfer.
inline constexpr const char* kExchange = "exchange";

// One rank's part [first, end) of a sequence.
struct Share {
  int64_t first = 0, end = 0;
  int64_t count() const { return end - first; }
};
// Shares follow one another, and their sizes differ by at most one. If there are more ranks than things, the
// last ranks get none.
constexpr Share share_of(int64_t count, int64_t rank, int64_t ranks) {
  const int64_t each = count / ranks, more = count % ranks;
  const auto begin = [&](int64_t r) { return r * each + std::min(r, more); };
  return {begin(rank), begin(rank + 1)};
}

class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends from[p] to rank p, and receives to[p] from there. Both lists have size() tensors of any shapes, as
  // long as both sides agree on the number of bytes. Nothing is sent for an undefined tensor.
  void all_to_all(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream);
  // Says whether all_to_all_views works, which saves packing what is sent and unpacking what is received.
  virtual bool moves_views() const { return false; }
  // Sends several views to each rank in one exchange: from[i · size() + p] goes to rank p, and to[i · size() + p]
  // comes from there. Views are [B, tokens, heads, D], with the heads of a token in one piece. Both sides agree
  // on the shape. Nothing is sent for an undefined view. If `free`, no rank has used what it receives since its
  // exchange before last, and so the ranks wait for one another once and not twice.
  void all_to_all_views(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream,
                        bool free = false);
  // Begins such an exchange beside the stream's work: it follows what is queued there now, and what is queued later
  // need not wait for it. Returns its number for arrive(). What is sent must stay until then. The rank's own part is
  // copied by the stream itself, or beside it, too, if the exchange is a `patient` one, for which long work is queued.
  int begin_views(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream,
                  bool patient = false);
  // Later work of the stream waits for that exchange.
  void arrive(int exchange, Stream& stream);
  // Waits for all ranks while the run is profiled, in a range of its own, so that the exchange after it is told apart
  // from the wait for a rank that is behind. Otherwise this does nothing.
  void line_up(Stream& stream);
  // Sends each rank's part to rank 0, which receives rank p's part in to[p]. The other ranks pass an empty
  // list.
  void gather(const Tensor& part, std::span<const Tensor> to, Stream& stream);

 private:
  void check_views(std::span<const Tensor> from, std::span<const Tensor> to) const;
  // These get checked arguments, and are never called in a measure run.
  virtual void exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) = 0;
  virtual void exchange_views(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream,
                              bool free);
  virtual int begin_exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream,
                             bool /*patient*/) {
    exchange_views(from, to, stream, false);
    return 0;
  }
  virtual void await(int, Stream&) {}
  virtual void wait_for_all(Stream&) {}
  virtual void collect(const Tensor& part, std::span<const Tensor> to, Stream& stream) = 0;
};

}  // namespace tachy::runtime
