#include "jobs/open_engine.h"

#include <fmt/format.h>

#include "api/fields.h"
#include "base/error.h"
#include "base/notice.h"

namespace tachy::jobs {
namespace {

// Returns the kind of device that an earlier run used, in order to repeat or resume it.
std::string device_again(const std::string& from, const std::string& kind) {
  std::string why;
  check(kind == "cpu" || gpu_there(&why), ErrorCode::unsupported,
        "`from`: {} comes from a run on a GPU, and there is none here ({}); `device` cpu repeats it on the "
        "CPU, but then its frames are not the same to the bit",
        from, why);
  return kind;
}

// Says whether the settings of an earlier run tell the kind of device.
bool repeats_device(const JobSpec& job, const EngineOptions& wanted) {
  return wanted.device.empty() && wanted.gpus.empty() && !job.settings.device.empty();
}

}  // namespace

EngineOptions with_parts(EngineOptions options, const RunSettings& settings) {
  for (const ModelPart& part : model_parts())
    if (const auto path = settings.parts.find(part.name); path != settings.parts.end())
      options.*part.option = path->second;
  return options;
}

std::string device_to_open(const JobSpec& job, const EngineOptions& wanted) {
  if (repeats_device(job, wanted)) return device_again(job.from, job.settings.device);
  if (wanted.crew) return wanted.device;
  return wanted.gpus.empty() ? choose_device(wanted.device) : first_of_gpus(wanted.gpus, wanted.device);
}

OpenedEngine open_engine(const JobSpec& job, const EngineOptions& wanted, JobSink& sink) {
  const LineScope lines(to_sink(sink));
  const RunSettings& s = job.settings;
  EngineOptions options = with_parts(wanted, s);
  check_ranks(options);
  options.device = device_to_open(job, wanted);
  const auto open = [&] { return naming("`model`", [&] { return Engine(model_path(s), options); }); };
  Engine engine = open();
  // Processes of several do not change to the CPU one by one.
  if (options.crew || wanted.max_vram > 0 || options.device == "cpu" || repeats_device(job, wanted) ||
      !wanted.gpus.empty() || !is_automatic(wanted.device))
    return {std::move(engine), {}};
  try {
    PreparedRequest first = engine.prepare(s.request);
    engine.check_memory(first.plan());
    return {std::move(engine), std::move(first)};
  } catch (const Error& e) {
    if (e.code() != ErrorCode::out_of_memory) throw;
    sink.notice(fmt::format("running on the CPU, since the GPU has too little memory: {}", e.message()));
    options.device = "cpu";
    return {open(), {}};
  }
}

}  // namespace tachy::jobs
