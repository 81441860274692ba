// The fields of a request that begins with videos.
#include "request/request_fields.h"

namespace tachy {

std::vector<RequestField> footage_fields() {
  using R = VideoRequest;
  return {
      {"strength", "strength", &R::strength,
       "with `video`: how much of it is made anew, above 0 to 1; the last part of the steps is run, so 0.7 "
       "of 50 "
       "steps are 35 (default 0.8)",
       Range{.least = 0, .most = 1, .above = true}, [](const R& r) { return r.video != nullptr; }},
      {"vace_strength",
       "vace_strength",
       &R::vace_strength,
       "for VACE models: how strongly the control is followed; one number, or one for each control block "
       "with "
       "commas; 0: not at all (default: 1)",
       {},
       [](const R& r) { return r.vace_strength.has_value(); }},
      {"outpaint",
       "outpaint",
       &R::outpaint,
       "for VACE models: how many pixels of the clip are made anew left of, above, right of and below "
       "`control_video`, as L,T,R,B",
       {},
       [](const R& r) { return r.outpaint.has_value(); }},
      {"keep",
       "keep",
       &R::keep,
       "for VACE models: the frames of the clip, FIRST-LAST from 0 on, that are those of `control_video` "
       "from its "
       "first one on; all others are made anew",
       {},
       [](const R& r) { return r.keep.has_value(); }},
  };
}

}  // namespace tachy
