// Divides a denoiser's passes among the processes of a crew (runtime/crew.h), as RankPasses divides them among
// threads: each process computes its share in its own arena, and then all get the velocities of all branches.
#pragma once

#include <functional>

#include "runtime/crew.h"
#include "runtime/rank_team.h"

namespace tachy {

class CrewPasses {
 public:
  // Computes this process's part of a pass. Comm connects the ranks of its group.
  using Forward = std::function<void(int group, runtime::Comm& comm)>;

  CrewPasses() = default;
  CrewPasses(runtime::Crew& crew, const runtime::RankLayout& layout) : crew_(&crew), layout_(layout) {}

  bool several() const { return crew_ != nullptr; }
  const runtime::RankLayout& layout() const { return layout_; }
  // Returns this process's rank, or that of the last one with work if it has nothing to do.
  int place() const;

  // Before the pass, `number` and on the CPU the bits of the latents must be the same in all ranks. `velocity`
  // [branches, ...] is undefined for a pass without a result.
  void run(uint32_t number, const Tensor& latents, const Tensor& velocity, Stream& stream,
           const Forward& forward);

 private:
  void hand_out(const Tensor& velocity, Stream& stream);

  runtime::Crew* crew_ = nullptr;  // null: there is one process
  runtime::RankLayout layout_;
};

}  // namespace tachy
