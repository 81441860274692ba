// The commands `validate` and `bench`, in a form that `tachyscope all` can also run.
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
  void prepare();  // throws if something is wrong with the options, before minutes are spent
  int run();       // returns 0 or kExitMiss
};

struct BenchCommand {
  BenchOptions options{.device = ""};
  std::string output, baseline, cases, size, profile, card;
  bool json = false, strict = false, ops_only = false, no_graph = false, optimisations = false;
  int rounds = 5;                     // used with --optimisations
  std::optional<BenchReport> before;  // the report that --compare names
  double relative = 0;    // how many times slower than the rest a component may be; 0: compares times
  jobs::SideFiles files;  // claims on report and profile, which nobody else may write meanwhile
  void add_options(CommandOptions& app, bool short_list);
  void prepare();
  int run_optimisations();
  int run_report_card();
  int run();  // returns 0, or kExitMiss with --strict if a line is slower
};

}  // namespace tachy::cli
