#include "crew.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/isa.h"
#include "base/json_text.h"
#include "base/notice.h"
#include "commands.h"
#include "jobs/settings.h"
#include "jobs/settings_environment.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

// Returns all that decides about a rank's run, for rank 0 to compare.
json account_of(const Engine& engine, const jobs::JobSpec& job, const PreparedRequest& prepared) {
  jobs::RunSettings run = job.settings;
  run.request = prepared.request();
  json settings = jobs::to_json(run);
  const bool on_gpu = engine.device() != "cpu";
  jobs::add_environment(settings, on_gpu);
  // Inputs may lie elsewhere on each host, so their content counts.
  json inputs = json::object();
  for (const auto& [name, file] : run.inputs) inputs[name] = file.sha256;
  return {{"settings", settings},
          {"inputs", inputs},
          {"model", engine.fingerprint(prepared.request().loras)},
          {"parallel", prepared.plan().parallel.text()},
          {"device", on_gpu ? "a GPU" : "a CPU"},
          {"instructions", isa_name(best_isa())}};
}

std::string difference_of(const std::string& first_text, const std::string& their_text) {
  const json first = parsed_or_discarded(first_text), theirs = parsed_or_discarded(their_text);
  if (!first.is_object() || !theirs.is_object() || !theirs.contains("settings") ||
      !theirs["settings"].is_object())
    return "it tells nothing of its run";
  const std::string settings = jobs::difference(theirs["settings"], first["settings"]);
  if (!settings.empty()) return settings + " (here: rank 0)";
  const auto differs = [&](const char* key) { return first.value(key, json()) != theirs.value(key, json()); };
  if (differs("model")) return "its model has other files";
  if (differs("inputs")) return "its pictures or sounds are other files";
  if (differs("parallel"))
    return fmt::format("`parallel` {} (here: rank 0) and {}", json_line(first["parallel"]),
                       json_line(theirs.value("parallel", json())));
  for (const auto& [key, what] :
       {std::pair("device", "computes on"), std::pair("instructions", "computes with")})
    if (differs(key))
      return fmt::format("it {} {}, and rank 0 {} {}, which gives other bits{}", what,
                         json_line(theirs.value(key, json())), what, json_line(first[key]),
                         std::string_view(key) == "instructions" ? "; TACHY_ISA can make all alike" : "");
  const std::string environment = environment_difference(jobs::environment_in(theirs["settings"]),
                                                         jobs::environment_in(first["settings"]));
  return environment.empty() ? "" : environment + " (now: rank 0)";
}

}  // namespace

std::shared_ptr<distributed::TcpCrew> launched_crew(const GenerateOptions& o) {
  const distributed::LaunchVariables variables = distributed::launch_variables();
  if (o.distributed) {
    require(o.gpu.empty(),
            "`gpu`: a plan for a GPU that is not here has one process; leave out `distributed`");
    require(o.engine.gpus.empty(),
            "`gpus`: several processes (`distributed`) take one GPU each; leave one of them out");
    return std::make_shared<distributed::TcpCrew>(distributed::launch_of(variables));
  }
  if (const std::string unused = distributed::unused_ranks(variables); !unused.empty())
    say_line(fmt::format("{} is not used: without `distributed` this process makes the whole video by itself",
                         unused));
  return nullptr;
}

void join_crew(distributed::TcpCrew& crew, std::vector<jobs::JobSpec>& all) {
  distributed::Meeting meeting = distributed::meeting_of_environment();
  meeting.cancel = &g_cancel;
  crew.join(meeting);
  json seeds = json::array();
  for (const jobs::JobSpec& job : all) seeds.push_back(job.settings.request.seed);
  const json first = parsed_or_discarded(crew.share(seeds.dump()));
  require(first.is_array() && first.size() == all.size(),
          "`distributed`: rank 0 makes {} videos, and rank {} {}", first.size(), crew.rank(), all.size());
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].drawn && first[i].is_number_unsigned())
      all[i].settings.request.seed = first[i].get<uint64_t>();
}

void compare_in_crew(distributed::TcpCrew& crew, const Engine& engine, const jobs::JobSpec& job,
                     const PreparedRequest& prepared) {
  crew.compare(json_line(account_of(engine, job, prepared)), difference_of);
}

}  // namespace tachy::cli
