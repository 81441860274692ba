#include "job_report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "say.h"

namespace tachy::cli {

void report(const GenerateOptions& o, const nlohmann::json& event, const std::string& text) {
  std::FILE* const to = o.output == "-" ? stderr : stdout;
  if (o.json)
    say(to, json_line(event) + "\n");
  else if (!o.quiet)
    say(to, text + "\n");
}

}  // namespace tachy::cli
