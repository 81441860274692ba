// Finds what of a request would fit where the request itself does not: first another size of the same
// proportions, on the model's grid, then fewer frames.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace tachy::workers {

struct Shape {
  int width = 0, height = 0, frames = 0;
  bool operator==(const Shape&) const = default;
};

// The numbers of which a model's videos are multiples: sides in pixels, and frames less one.
struct Grid {
  int size = 1, frames = 1;
};

// Returns the shape on the grid that is nearest to the given one.
Shape on_grid(const Shape& shape, const Grid& grid);

// Returns a shape that `fits` accepts, hardly smaller than the largest of this search, or nothing. The sides
// shrink to a quarter before frames are given up. `fits` is called about twenty times, mostly for small
// shapes, and is taken to accept what is smaller than something that it accepts.
// `wanted` itself is known not to fit.
std::optional<Shape> nearest_that_fits(const Shape& wanted, const Grid& grid,
                                       const std::function<bool(const Shape&)>& fits);

// {"size": "480x272", "num_frames": 33}, as a caller would ask for it.
nlohmann::json fields_of_shape(const Shape& shape, bool with_frames);

}  // namespace tachy::workers
