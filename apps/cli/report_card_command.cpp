// `tachyscope bench --report-card`: one file about a GPU that the project has never seen.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/exit_code.h"
#include "api/tachyscope.h"
#include "base/json_text.h"
#include "commands.h"
#include "gauge_options.h"
#include "inspect/report_card.h"
#include "media/files.h"
#include "status_line.h"

namespace tachy::cli {
namespace {

// Returns "180 to 225" for a pair of numbers.
std::string range_text(const nlohmann::json& pair) {
  return fmt::format("{:.0f} to {:.0f}", pair[0].get<double>(), pair[1].get<double>());
}

}  // namespace

int BenchCommand::run_report_card() {
  StatusLine status(!json);
  const nlohmann::json report = report_card({.device = options.device,
                                             .dtype = options.dtype,
                                             .threads = options.threads,
                                             .progress = [&](const std::string& text) { status.show(text); },
                                             .cancel = &g_cancel},
                                            version());
  status.clear();
  write_whole(card, json_text(report, 1) + "\n");
  if (json) {
    fmt::print("{}\n", json_text(report["rates"], 2));
    return 0;
  }
  fmt::print("{}: T/s\n", report["bench"]["gpu"]["name"].get<std::string>());
  for (const auto& row : report["rates"])
    fmt::print(
        "  {:<28}{:<16}{}\n", row["kind"].get<std::string>(), range_text(row["reached"]),
        row["predicted"].is_null() ? "nothing was predicted" : "predicted " + range_text(row["predicted"]));
  fmt::print("{}: please send this file to the project (docs/gpu.md says how, and what is learnt)\n", card);
  return 0;
}

}  // namespace tachy::cli
