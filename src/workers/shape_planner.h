// Plans a request, and the same request in other shapes, to tell whether it fits and what would.
//
// A plan is a dry run, whose time grows with pixels and frames. Of a shape that is far too large it would
// take minutes, so such shapes are refused by two plans of small ones: what a run holds is about linear in
// the area, and a shape that would need several times the memory that there is need not be planned.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "api/tachyscope.h"
#include "workers/nearest.h"

namespace tachy::workers {

class ShapePlanner {
 public:
  // Throws out_of_memory for a plan that is too large.
  using CheckMemory = std::function<void(const VideoPlan& plan)>;
  // All must outlive this object. Without a check of one's own it is the engine's.
  ShapePlanner(Engine& engine, const VideoRequest& request, CheckMemory check = {});

  // Returns the plan of the request itself. Throws out_of_memory if it does not fit, and what prepare()
  // throws.
  PreparedRequest plan() { return planned(request_); }
  // Returns the fields of a similar request that fits; {} if there is none, or none was found within seconds.
  nlohmann::json nearest();

 private:
  PreparedRequest prepared(const VideoRequest& request) const;
  PreparedRequest planned(const VideoRequest& request);
  Shape shape_of(const VideoRequest& request) const;
  VideoRequest with_shape(const Shape& shape) const;
  void refuse_hopeless(const Shape& shape);

  Engine& engine_;
  CheckMemory check_;
  const VideoRequest& request_;
  bool framed_;  // speech and videos say how many frames there are, unless somebody says otherwise
};

}  // namespace tachy::workers
