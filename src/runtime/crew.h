// The processes that make one video together. Each is a rank: it runs the whole request up to the last
// denoising step, but computes its share of each pass alone. Rank 0 decodes, hands out the frames and keeps
// the state to resume from. src/distributed has the crew that exchanges over TCP.
//
// All calls but watch() come from the thread of the run. Whatever a rank throws reaches the others by end(),
// and none waits for one that is gone.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "cuda/gpu.h"
#include "runtime/comm.h"

namespace tachy::runtime {

class Crew {
 public:
  virtual ~Crew() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  bool leads() const { return rank() == 0; }
  // Where this rank is among those of its host, as far as the launcher tells: that decides which GPU it takes.
  virtual int place_on_host() const { return 0; }
  virtual bool on_one_host() const { return false; }  // says whether all ranks are on this host

  // Lets exchanges move tensors of this GPU from now on, and does nothing for null. All ranks call it once they watch.
  virtual void connect(cuda::Gpu*) {}
  // Waits until the exchanges of a pass are done on the device. Throws cancelled if they ended because a rank is gone:
  // what they brought means nothing then.
  virtual void settle(Stream&) {}

  // The ranks [first, first + count), among which this one is. A communicator that only measures needs no
  // connection.
  virtual std::unique_ptr<Comm> among(int first, int count) = 0;

  // Meets all others between two steps. Throws internal unless all bring the same word, which tells what each
  // is about to do.
  virtual void agree(uint64_t word) = 0;

  // Rank 0 begins a run and hands out the state from which it goes on, as bytes, or says that there is
  // nothing to do. The others wait for that: they get the bytes, or nothing.
  virtual void begin(const std::string& state) = 0;
  virtual void skip() = 0;
  virtual std::optional<std::string> next(const std::atomic<bool>* cancel) = 0;

  // Returns a flag that is set soon after `cancel` is, or after a rank is gone. After the last step all ranks
  // call rest(): from then on they may go.
  virtual const std::atomic<bool>* watch(const std::atomic<bool>* cancel) = 0;
  virtual void rest() = 0;
  virtual void stop_watching() noexcept = 0;

  // Returns the error that a run should end with: the reason why a rank is gone in place of "cancelled".
  virtual Error reason_for(const Error& error) = 0;
  // Tells the others why this rank ends. Nothing can be exchanged afterwards.
  virtual void end(const Error& error) noexcept = 0;
};

}  // namespace tachy::runtime
