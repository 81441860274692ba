// What this machine has, which implementation each op gets and why, and whether each op works here: a short
// self-test of every implementation against its definition on its tiny and odd cases.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cpu/machine.h"

namespace tachy {

struct OpHealth {
  std::string op;
  std::string pick;  // what most of its cases get at this level
  std::string why;   // "first choice of 2", "its only one", or why not those before it
  struct Exception {
    std::string pick, reason;  // another pick, and why not the first choice
    int cases = 0;
  };
  int cases = 0;
  std::vector<Exception> exceptions;
  bool ok = true;
  double worst = 0;     // error over bound, of the self-test
  std::string failure;  // with the line that repeats it
};

struct LevelState {
  std::string name, means, here;  // `here`: what it comes to on this machine
  bool active = false;
};

struct DoctorReport {
  cpu::Machine machine;
  std::vector<std::pair<std::string, std::string>> libraries;
  std::string level;
  std::vector<LevelState> levels;
  std::vector<OpHealth> ops;
  double self_test_seconds = 0;
  bool ok() const;
};

DoctorReport run_doctor(const std::string& level, int threads);
nlohmann::json to_json(const DoctorReport& report);

}  // namespace tachy
