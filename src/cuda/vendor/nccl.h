// The ranks of several processes, with a GPU each, joined by NCCL. The library (libnccl.so.2) is opened at run time.
//
// NCCL's own calls return at once here, and the host asks whether they are done. So nothing waits for a rank that is
// gone: whoever waits looks at a flag, and a thread that watches over the ranks calls abort(), which also ends what waits
// on the device.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "cuda/vendor/nccl_api.h"

namespace tachy::cuda {

class NcclRanks {
 public:
  using Clock = std::chrono::steady_clock;

  NcclRanks() = default;
  ~NcclRanks();
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  // Opens the library. Throws `unsupported` if it is missing or too old.
  void open();
  bool opened() const { return version_ > 0; }
  std::string version() const;  // "2.28.9"

  std::string new_id();  // one rank makes it, and all join by it
  // Joins the ranks on the current device (current_device.h). Throws `device` if they have not met until then.
  void join(const std::string& id, int rank, int ranks, const std::atomic<bool>* cancel,
            Clock::time_point until);
  bool joined() const { return joined_; }

  // Bytes on this rank's device that go to another rank, or come from there.
  struct Part {
    int peer = 0;
    void* data = nullptr;
    size_t bytes = 0;
  };
  // Queues an exchange (`queue` is a cudaStream_t). Throws `cancelled` once the flag is set or abort() was called.
  void exchange(std::span<const Part> out, std::span<const Part> in, void* queue,
                const std::atomic<bool>* cancel);

  // Returns what went wrong since the last exchange, or "". Any thread may call this, and abort().
  std::string failure();
  // Ends all exchanges, on the device, too. What they should have brought is not there.
  void abort() noexcept;
  // Throws `cancelled` after abort().
  void expect_whole() const;

 private:
  void check(NcclResult result, const char* what);
  // Waits until the last call is done.
  void await(const char* what, const std::atomic<bool>* cancel, std::optional<Clock::time_point> until);
  std::string text_of(NcclResult result) const;

  NcclApi api_;
  int version_ = 0;
  std::mutex mutex_;            // holds while NCCL is called, which is short
  NcclHandle* comm_ = nullptr;  // null before join() and after abort()
  // Where NCCL writes the handle: in the call, and again from a thread of its own once the ranks have joined or failed
  // to, even if abort() was called in the meantime.
  NcclHandle* made_ = nullptr;
  std::atomic<bool> joined_{false}, aborted_{false};
  Clock::time_point left_{};  // when abort() gave the handle up
};

}  // namespace tachy::cuda
