// `tachyscope convert` writes a model in another form.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "api/convert.h"
#include "api/tachyscope.h"
#include "base/env.h"
#include "base/field.h"
#include "base/json_text.h"
#include "base/log.h"
#include "commands.h"
#include "field_options.h"
#include "generate_options.h"
#include "progress.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

constexpr double kSoon = 2;  // work that ends within this many seconds shows no progress

struct CliConvertOptions {
  std::string input, output, max_shard_size = "10GB";
  Conversion convert;
  EngineOptions engine;
  bool json = false, quiet = false;
};

void print(const ConvertedModel& r, bool folder) {
  fmt::print("{} ({}, {} tensors: {})\n", r.output, human_bytes(r.bytes), r.tensors,
             fmt::join(r.dtypes, ", "));
  if (folder)
    for (const std::string& file : r.files) fmt::print("  {}\n", file);
  for (const std::string& note : r.notes) fmt::print("{}\n", spelled(note));
}

int run_convert(const CliConvertOptions& o) {
  set_quiet(o.quiet);
  Conversion what = o.convert;
  what.model = o.input, what.output = o.output, what.parts = part_paths(o.engine);
  what.cancel = &g_cancel;
  what.max_shard_bytes = naming("`max_shard_size`", [&] { return parse_bytes(o.max_shard_size); });
  ProgressLine progress(ProgressLine::choose(o.json, o.quiet));
  what.progress = [&](const Progress& p) {
    if (o.json || p.elapsed_seconds >= kSoon) progress.update(p);
  };
  const ConvertedModel report = convert(what);
  progress.clear();
  if (o.json) {
    const json event = {{"event", "done"},           {"output", report.output}, {"bytes", report.bytes},
                        {"tensors", report.tensors}, {"files", report.files},   {"dtypes", report.dtypes},
                        {"notes", report.notes}};
    fmt::print("{}\n", json_line(event));
  } else if (!o.quiet) {
    print(report, what.to == "diffusers");
  }
  return 0;
}

}  // namespace

Command add_convert(CommandLine& line) {
  CommandOptions sub =
      line.add_command("convert", "write a model in diffusers' layout, or its transformer as one file");
  auto o = std::make_shared<CliConvertOptions>();
  sub.add_option("input", o->input, "model's folder, or the file of one part")->required();
  sub.add_option("output", o->output,
                 "folder to write (diffusers) or file to write (.safetensors; .gguf for gguf), which must "
                 "not exist yet unless --overwrite is given")
      ->required();
  sub.add_option("--to", o->convert.to,
                 "what to write: diffusers (a folder), single (one file, as ComfyUI has it), fp8 (ComfyUI's "
                 "fp8_scaled), int8 (LightX2V's) or gguf:TYPE, where TYPE is Q8_0, Q5_1, Q5_0, Q4_1, Q4_0, "
                 "BF16, F16 or F32")
      ->required();
  sub.add_option(
      "--part", o->convert.part,
      "which of two transformers to write to a file: transformer (high noise) or transformer_2 (low noise)");
  sub.add_option("--max-shard-size,--max_shard_size", o->max_shard_size,
                 "diffusers: largest size of a file (default 10GB)");
  sub.add_flag("--overwrite", o->convert.overwrite, "replace the output if it exists already");
  register_model_parts(sub, o->engine, kPartsGroup, {"infinitetalk", "audio_encoder"});
  sub.add_option("-t,--threads", o->convert.threads,
                 "number of threads (default: all that this process may use)")
      ->check(between(0, 1024));
  sub.add_flag("--json", o->json, "print JSON lines instead of text");
  sub.add_flag("-q,--quiet", o->quiet, "print nothing but errors");
  sub.footer(
      "Examples:\n"
      "  tachyscope convert Wan2.1-T2V-1.3B --to diffusers Wan2.1-T2V-1.3B-Diffusers\n"
      "  tachyscope convert Wan2.1-T2V-1.3B --to gguf:Q8_0 wan2.1_t2v_1.3B-Q8_0.gguf\n"
      "  tachyscope convert Wan2.2-T2V-A14B --part transformer_2 --to fp8 "
      "wan2.2_low_noise_fp8_scaled.safetensors");
  return [o] { return run_convert(*o); };
}

}  // namespace tachy::cli
