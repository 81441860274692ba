// Numbers in a row, of which a range is lowered and the smallest of a range is asked for, each in O(log n): a
// tree over the row. The policy keeps how far each waiting job may still be passed over in it.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace tachy::queue {

class SlackTree {
 public:
  explicit SlackTree(const std::vector<double>& values) {
    while (leaves_ < values.size()) leaves_ *= 2;
    least_.assign(2 * leaves_, kRemoved), change_.assign(2 * leaves_, 0);
    std::copy(values.begin(), values.end(), least_.begin() + static_cast<ptrdiff_t>(leaves_));
    for (size_t node = leaves_ - 1; node > 0; --node)
      least_[node] = std::min(least_[2 * node], least_[2 * node + 1]);
  }
  // Lowers the numbers in front of `end`.
  void lower_before(size_t end, double by) { lower(1, 0, leaves_, end, by); }
  // Returns the smallest number in front of `end`; infinity if there is none.
  double least_before(size_t end) const { return least(1, 0, leaves_, end); }
  // Takes the number out of the row; the others keep their indices.
  void remove(size_t at) {
    size_t node = leaves_ + at;
    for (least_[node] = kRemoved; node > 1;) {
      node /= 2;
      least_[node] = std::min(least_[2 * node], least_[2 * node + 1]) + change_[node];
    }
  }

 private:
  static constexpr double kRemoved = std::numeric_limits<double>::infinity();

  // A node's least number contains the changes of the node and of those below it, but not of those above.
  void lower(size_t node, size_t begin, size_t size, size_t end, double by) {
    if (begin >= end) return;
    if (begin + size <= end) {
      least_[node] -= by, change_[node] -= by;
      return;
    }
    lower(2 * node, begin, size / 2, end, by);
    lower(2 * node + 1, begin + size / 2, size / 2, end, by);
    least_[node] = std::min(least_[2 * node], least_[2 * node + 1]) + change_[node];
  }
  double least(size_t node, size_t begin, size_t size, size_t end) const {
    if (begin >= end) return kRemoved;
    if (begin + size <= end) return least_[node];
    return std::min(least(2 * node, begin, size / 2, end),
                    least(2 * node + 1, begin + size / 2, size / 2, end)) +
           change_[node];
  }

  size_t leaves_ = 1;
  std::vector<double> least_, change_;
};

}  // namespace tachy::queue
