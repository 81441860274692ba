// The last plans of a pipeline. A request that differs from an earlier one only in its prompts' words, its seed, its
// starting noise, and what is to be seen and heard in its picture and speech would be planned alike, and the walk takes 20
// to 40 ms for a clip of 81 frames, so such a request gets the earlier plan. The memory that is free is asked for again.
#pragma once

#include <list>
#include <mutex>

#include "engine/memory_plan.h"

namespace tachy {

class KnownPlans {
 public:
  // make_plan, or an earlier one's result. Any thread may call it.
  VideoPlan plan(const PlanInput& in);
  int reused() const { return reused_; }

 private:
  // Everything on which a plan depends, for a model, its options and its device that stay the same.
  struct Shape {
    VideoRequest request;  // without its words, its seed, its noise, its pictures and its speech
    Precision precision;
    Products vae = Products::as_activations;
    bool graphs = false;
    size_t positive = 0, negative = 0;  // numbers of tokens
    bool encodes_positive = false, encodes_negative = false;
    bool image = false, last_image = false;
    size_t embeds = 0,
           samples = 0;  // values of given embeddings of the picture, and the audio encoder's input
    int64_t spoken = 0;
    bool operator==(const Shape&) const = default;
  };
  struct Known {
    Shape shape;
    VideoPlan plan;
  };
  static std::optional<Shape> shape_of(const PlanInput& in);
  std::optional<VideoPlan> known(const Shape& shape, const PlanInput& in);

  std::mutex mutex_;
  std::list<Known> plans_;  // the one that was used last is at the front
  std::atomic<int> reused_{0};
};

}  // namespace tachy
