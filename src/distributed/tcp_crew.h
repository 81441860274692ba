// The processes of a launch as a crew that exchanges over TCP (runtime/crew.h). It plans before the ranks
// have met; join() lets them meet.
#pragma once

#include <functional>
#include <thread>

#include "distributed/rendezvous.h"
#include "runtime/crew.h"

namespace tachy::distributed {

class TcpCrew final : public runtime::Crew {
 public:
  explicit TcpCrew(Launch launch) : launch_(std::move(launch)) {}
  ~TcpCrew() override { stop_watching(); }

  void join(const Meeting& meeting) { mesh_ = meet(launch_, meeting); }
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

  const Launch launch_;
  std::unique_ptr<Mesh> mesh_;
  const std::atomic<bool>* cancel_ = nullptr;  // the caller's flag
  std::atomic<bool> stop_{false}, watching_{false};
  std::atomic<int> lost_{-1};
  std::thread watcher_;
};

}  // namespace tachy::distributed
