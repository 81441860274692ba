// How long runs really take beside what their plans say: for each model and device, the ratio of seen to
// planned seconds of each stage, and the seconds that no stage accounts for. They are learnt from the runs of
// this server and kept in a small file, so that a server knows them from its start.
//
//   seconds = Σ over stages of ratio · planned + overhead
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "api/tachyscope.h"

namespace tachy::workers {

// The times that were seen of one model on one device.
struct Rate {
  std::map<std::string, double> stages;  // ratios, under the names of stages
  double overhead = 0;                   // in seconds
  int64_t runs = 0;                      // from which this was learnt
  bool cold = false;                     // the only run so far loaded the weights, too

  double ratio(const std::string& stage) const;
  double seconds(const StagePlan& stage) const { return ratio(stage.name) * stage.seconds; }
  double seconds(const VideoPlan& plan) const;
};

// The seconds that a run took in each stage, and in all.
struct Seen {
  std::map<std::string, double> stages;
  double all = 0;
  bool loaded = false;  // it also loaded weights
};

class Rates {
 public:
  // A file that is missing or damaged counts as empty.
  explicit Rates(std::filesystem::path file);

  static std::string key(const std::string& model, const std::string& device) { return model + "@" + device; }
  Rate of(const std::string& key) const;
  // Learns from a run that was neither interrupted nor beside another one, and keeps what is known in the
  // file.
  void learn(const std::string& key, const VideoPlan& plan, const Seen& seen);

 private:
  void read();
  std::string text() const;

  std::filesystem::path file_;
  mutable std::mutex mutex_, writing_;
  std::map<std::string, Rate> rates_;
};

}  // namespace tachy::workers
