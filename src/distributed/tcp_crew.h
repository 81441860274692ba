// The processes of a launch as a crew (runtime/crew.h). Tensors of the CPU go over TCP, those of GPUs by NCCL once the
// ranks are connected; words and texts always go over TCP. It plans before the ranks have met; join() lets them meet.
#pragma once

#include <functional>
#include <thread>

#include "cuda/vendor/nccl.h"
#include "distributed/rendezvous.h"
#include "runtime/crew.h"

namespace tachy::distributed {

class TcpCrew final : public runtime::Crew {
 public:
  explicit TcpCrew(Launch launch) : launch_(std::move(launch)) {}
  ~TcpCrew() override { stop_watching(); }

  // To be called before there are threads, since it sets variables that NCCL reads.
  void join(const Meeting& meeting);
  bool joined() const { return mesh_ != nullptr; }
  const Launch& launch() const { return launch_; }

  // Compares what each rank is about to do with what rank 0 is. `difference` tells how a rank's text differs
  // from rank 0's, or "". Throws invalid_argument in all ranks if one does.
  using Difference = std::function<std::string(const std::string& first, const std::string& theirs)>;
  void compare(const std::string& mine, const Difference& difference);
  // Returns rank 0's text in all ranks.
  std::string share(std::string mine);

  int rank() const override { return launch_.rank; }
  int size() const override { return launch_.ranks; }
  int place_on_host() const override { return launch_.local_rank; }
  bool on_one_host() const override { return launch_.local_ranks == launch_.ranks; }
  void connect(cuda::Gpu* gpu) override;
  // Connects ranks by NCCL whose tensors lie in `memory`; null is the host's, for tests. `device` says what all must
  // have alike.
  void connect(const std::string& device, DeviceMemory* memory, void* queue);
  void settle(Stream& stream) override;
  std::unique_ptr<runtime::Comm> among(int first, int count) override;
  void agree(uint64_t word) override;
  void begin(const std::string& state) override { share("g" + state); }
  void skip() override { share("s"); }
  std::optional<std::string> next(const std::atomic<bool>* cancel) override;
  const std::atomic<bool>* watch(const std::atomic<bool>* cancel) override;
  void rest() override;
  void stop_watching() noexcept override;
  Error reason_for(const Error& error) override;
  void end(const Error& error) noexcept override;

 private:
  Mesh& mesh();
  std::vector<std::string> gather(const std::string& mine);
  void start_watching(bool ranks_too);
  void look_at_ranks();
  void try_connection(DeviceMemory* memory, void* queue);

  const Launch launch_;
  std::unique_ptr<Mesh> mesh_;
  double seconds_ = 60;  // how long ranks wait for one another
  cuda::NcclRanks nccl_;
  std::string failure_;                        // of NCCL; set before stop_
  const std::atomic<bool>* cancel_ = nullptr;  // the caller's flag
  std::atomic<bool> stop_{false}, watching_{false};
  std::atomic<int> lost_{-1};
  std::thread watcher_;
};

}  // namespace tachy::distributed
