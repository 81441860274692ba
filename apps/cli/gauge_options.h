// `validate` and `bench` as `tachyscope all` runs them too.
#pragma once

#include <optional>
#include <string>

#include "command_line.h"
#include "field_options.h"
#include "inspect/bench.h"
#include "inspect/validate.h"
#include "jobs/side_files.h"

namespace tachy::cli {

struct ValidateCommand {
  ValidateOptions options{.device = ""};
  std::string modes, cases = "tiny,odd", dtypes;
  bool json = false, verbose = false, ops_only = false, models_only = false;
  void add_options(CommandOptions& app, bool short_list);
  void prepare();  // throws what is wrong with the options, before minutes are spent
  int run();       // 0 or kExitMiss
};

struct BenchCommand {
  BenchOptions options{.device = ""};
  std::string output, baseline, cases, size, profile;
  bool json = false, strict = false, ops_only = false, no_graph = false, optimisations = false;
  int rounds = 5;                     // with optimisations
  std::optional<BenchReport> before;  // --compare
  double relative = 0;    // how many times slower than the rest a component may be; 0: times are compared
  jobs::SideFiles files;  // report and profile, which nobody else writes meanwhile
  void add_options(CommandOptions& app, bool short_list);
  void prepare();
  int run_optimisations();
  int run();  // 0, or kExitMiss when --strict and a line is slower
};

}  // namespace tachy::cli
