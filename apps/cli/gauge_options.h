// `validate` and `bench` as `tachyscope all` runs them too.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "api/gauges.h"

namespace tachy::cli {

inline constexpr const char* kDeviceHelp = "cpu (default), cuda, cuda:1 …, or auto: a GPU where there is one";

struct ValidateCommand {
  ValidateOptions options;
  std::string modes, cases = "tiny,odd", dtypes;
  bool json = false, verbose = false, ops_only = false, models_only = false;
  void add_options(CLI::App& app, bool short_list);
  void prepare();  // throws what is wrong with the options, before minutes are spent
  int run();       // 0 or kExitMiss
};

struct BenchCommand {
  BenchOptions options;
  std::string output, baseline, cases;
  bool json = false, strict = false, ops_only = false;
  std::optional<BenchReport> before;  // --compare
  void add_options(CLI::App& app, bool short_list);
  void prepare();
  int run();  // 0, or kExitMiss when --strict and a line is slower
};

}  // namespace tachy::cli
