// Answers to "what would this request take, and does it fit?" that were found a moment ago. To plan a video that is
// far too large, and to find a smaller one that fits, takes seconds of computing, and clients ask again and again while
// somebody moves a slider. An answer that is just being found is waited for.
//
// A shape stands for everything of a request on which memory depends, but for the text of its prompts, of which only
// the number of tokens counts, and little. So a shape that does not fit is not planned again for another prompt,
// while a plan that fits is exact, and counts for equal requests alone.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "api/tachyscope.h"

namespace tachy::workers {

struct Planned {
  std::shared_ptr<const PreparedRequest> prepared;    // null: it does not fit
  std::string reason;                                 // why not, with the limit
  nlohmann::json nearest = nlohmann::json::object();  // fields that would fit
  std::vector<std::string> lines;                     // what was said meanwhile
};

class PlanCache {
 public:
  struct Key {
    std::string shape, rest;
  };
  using Make = std::function<Planned()>;

  // `fresh_seconds` is how long an answer counts: the memory that is free may change.
  explicit PlanCache(double fresh_seconds = 10) : fresh_seconds_(fresh_seconds) {}

  // Returns the answer that is there, or calls `make`. An exception of `make` goes to its own caller; the others that
  // wait for it try themselves.
  std::shared_ptr<const Planned> get(const Key& key, const Make& make);

 private:
  static constexpr size_t kMost = 32;  // a plan holds its pictures and sounds
  struct Entry {
    std::string rest;
    std::shared_ptr<const Planned> planned;
    double made = 0;
  };
  const Entry* find(const std::string& shape);
  void put(const Key& key, std::shared_ptr<const Planned> planned);

  const double fresh_seconds_;
  std::mutex mutex_;
  std::condition_variable landed_;
  std::map<std::string, Entry> entries_;  // by shape
  std::set<std::string> flights_;         // what is being found
};

}  // namespace tachy::workers
