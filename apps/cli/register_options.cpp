// The options of `tachyscope generate` on the command line. Those for a request's fields are made from their
// table (request/request_fields.h) and their spellings (field_options.h).
#include <algorithm>

#include "api/fields.h"
#include "field_options.h"
#include "generate_options.h"
#include "seed.h"

namespace tachy::cli {
namespace {

void add_setting(CommandOptions& app, GenerateOptions& o, const FieldOption& option,
                 const RequestField& field) {
  std::visit(
      [&](auto member) {
        using Value = std::optional<std::decay_t<decltype(*value_in(VideoRequest().*member))>>;
        GivenField& given = o.fields.emplace(field.name, Value()).first->second;
        auto added = app.add_option(option.names, std::get<Value>(given), spelled(field.help));
        added->group(option.group);
        if constexpr (std::is_same_v<Value, std::optional<std::vector<std::string>>>)
          added->allow_extra_args(false);  // the option takes one value each time: the next word may be the
                                           // prompt
      },
      field.member);
}

// Each prompt and each seed makes a video of its own, so both are lists here.
void add_prompts(CommandOptions& app, GenerateOptions& o, const FieldOption& option) {
  // With extra arguments, a prompt in brackets would be read as a list.
  app.add_option(option.names, o.prompts, "what the video should show; repeat -p for more videos")
      ->allow_extra_args(false)
      ->group(option.group);
  app.add_option("--prompt-file,--prompt_file", o.prompt_file, "file with one prompt on each line")
      ->group(option.group);
}

void add_seeds(CommandOptions& app, GenerateOptions& o, const FieldOption& option) {
  // The option takes one value each time: the next word may be the prompt.
  app.add_option(option.names, o.seeds,
                 "seed of the noise, as in PyTorch (default 0; -1: a random one, which is printed); repeat "
                 "it for more videos")
      ->allow_extra_args(false)
      ->check(check_drawable_seed)
      ->group(option.group);
}

// Registers the fields of a request that belong to a group of --help, in the order of their spellings.
void register_fields(CommandOptions& app, GenerateOptions& o, std::string_view group) {
  for (const FieldOption& option : request_options()) {
    if (option.group != group) continue;
    if (option.field == "prompt")
      add_prompts(app, o, option);
    else if (option.field == "seed")
      add_seeds(app, o, option);
    else if (const RequestField* field = find_field(request_fields(), option.field))
      add_setting(app, o, option, *field);
    else if (const RequestInput* input = find_field(request_inputs(), option.field)) {
      if (has_second(input->name))
        app.add_option(option.names, o.pairs[input->name], input->help)
            ->allow_extra_args(false)
            ->group(option.group);
      else
        app.add_option(option.names, o.inputs[input->name], input->help)->group(option.group);
    }
  }
}

void register_encoding(CommandOptions& app, GenerateOptions& o) {
  app.add_option("--crf", o.crf,
                 "quality of mp4 (0 to 51, default 16) and webm (0 to 63, default 24): lower is better, 0 is "
                 "lossless")
      ->group(kVideoGroup);
  app.add_option("--encode-speed,--encode_speed", o.encode_speed,
                 "speed of encoding mp4 and webm, by x264's names: ultrafast, superfast, veryfast (default), "
                 "faster, fast, medium, slow, slower or veryslow; gif and png have no such choice")
      ->group(kVideoGroup);
}

Option add(CommandOptions& app, const char* names, bool& flag, const std::string& help) {
  return app.add_flag(names, flag, help);
}
template <class T>
Option add(CommandOptions& app, const char* names, T& value, const std::string& help) {
  return app.add_option(names, value, help);
}

void register_engine_field(CommandOptions& app, GenerateOptions& o, const char* name, const char* names) {
  const EngineField& field = *find_field(engine_fields(), name);
  std::visit(
      [&](auto member) { add(app, names, o.engine.*member, spelled(field.help))->group(kRunningGroup); },
      field.member);
}

// Registers where and how a run computes, and within how much memory.
void register_machine(CommandOptions& app, GenerateOptions& o) {
  register_engine_field(app, o, "threads", "-t,--threads");
  register_engine_field(app, o, "ranks", "--ranks");
  register_engine_field(app, o, "parallel", "--parallel");
  app.add_flag("--distributed", o.distributed,
               "this process is one of several, started by torchrun, srun, mpirun or an Indexed Job of "
               "Kubernetes, that make each video together: the launcher's variables say which "
               "(docs/several-gpus.md)")
      ->group(kRunningGroup);
  app.add_option("--device", o.engine.device,
                 std::string(kDeviceHelp) +
                     "; on a GPU, products and activations are bf16 unless --dtype says f32 or f16")
      ->group(kRunningGroup);
  register_engine_field(app, o, "gpus", "--gpus");
  register_fields(app, o, kRunningGroup);
  // The value of this option is a text, which parse_bytes reads.
  app.add_option("--max-vram,--max_vram,--vram-budget", o.max_vram,
                 find_field(engine_fields(), "max_vram")->help)
      ->group(kRunningGroup);
  register_engine_field(app, o, "text_cache", "--text-cache");
  app.add_flag("--no-graph", o.no_graph,
               "on a GPU: launch every kernel of every step by itself instead of replaying a CUDA graph")
      ->group(kRunningGroup);
  app.add_flag("--no-arena", o.no_arena,
               "allocate every intermediate by itself instead of in the planned arena: for hunting memory "
               "errors with a sanitizer; slow, the same frames; on a GPU with --no-graph only")
      ->group(kRunningGroup);
  register_engine_field(app, o, "verify_upload", "--verify-upload");
  register_engine_field(app, o, "weights", "--weights");
}

// Registers the files and reports beside a video, and how a run resumes an earlier one.
void register_reports(CommandOptions& app, GenerateOptions& o) {
  app.add_option(
         "--profile", o.profile,
         "write where the time went to this file (a Chrome trace for chrome://tracing or "
         "ui.perfetto.dev) and print a table; on a GPU by its own clock, and as NVTX ranges; of several "
         "videos it times the last one")
      ->group(kRunningGroup);
  app.add_flag(
         "--nvtx", o.nvtx,
         "mark stages and steps as NVTX ranges for nsys and ncu; on a GPU graphs stay (docs/profiling.md)")
      ->group(kRunningGroup);
  app.add_option("--preview", o.preview,
                 "after each step, write the latents to this file as a small PNG; for a talking photo those "
                 "of the current window")
      ->group(kRunningGroup);
  app.add_option("--from", o.from,
                 "repeat an earlier run: give its .json, its video, or the .resume file of an interrupted "
                 "run; other options override its settings")
      ->group(kRunningGroup);
  app.add_flag(
         "--resume", o.resume,
         "continue an interrupted run with the same settings from its last saved step (in OUTPUT.resume; for "
         "a talking photo also its finished windows, in OUTPUT.windows); the frames are the same")
      ->group(kRunningGroup);
  app.add_option("--state-every", o.state_every,
                 "shortest time between two saves of the state for --resume, in seconds (default 5; 0: after "
                 "each step); it is also saved after each window of a talking photo")
      ->group(kRunningGroup);
  app.add_flag("--plan", o.plan,
               "print the memory, the predicted time and the implementations of each stage, and stop")
      ->group(kRunningGroup);
  app.add_option(
         "--gpu", o.gpu,
         "with --plan: plan for this GPU (such as a100), which need not be in this machine, or for several "
         "of them with --gpus N; the time is predicted from a table of rates (docs/speed.md)")
      ->group(kRunningGroup);
  app.add_flag("--json", o.json, "print JSON lines instead of text")->group(kRunningGroup);
  app.add_flag("-q,--quiet", o.quiet, "print nothing but errors")->group(kRunningGroup);
}

}  // namespace

void register_model_parts(CommandOptions& app, EngineOptions& engine, const char* group,
                          std::initializer_list<std::string_view> left_out) {
  for (const FieldOption& option : model_part_options()) {
    if (std::ranges::find(left_out, option.field) != left_out.end()) continue;
    const EngineField& field = *find_field(engine_fields(), option.field);
    app.add_option(option.names, engine.*std::get<std::string EngineOptions::*>(field.member),
                   spelled(field.help))
        ->group(group);
  }
}

Option register_vae_math(CommandOptions& app, std::string& vae_math) {
  const auto option = std::ranges::find(request_options(), "vae_math", &FieldOption::field);
  return app.add_option(option->names, vae_math, spelled(find_field(request_fields(), "vae_math")->help));
}

void register_options(CommandOptions& app, GenerateOptions& o) {
  register_fields(app, o, kPromptGroup);
  app.add_option("-m,--model,--ckpt_dir,--model-path,--diffusion-model", o.model,
                 "model: a folder in the layout of diffusers or of the original Wan, or the file of a "
                 "transformer (default: the model that ships with Tachyscope)");
  app.add_option(
      "-o,--output,--save_file,--output-path", o.output,
      "file to write: .mp4, .webm, .gif, .png (a single frame), name_%04d.png or folder/ (a picture for each "
      "frame), or - for mp4 on standard output (default: an .mp4 named after the prompt)");
  app.add_flag("--stream", o.stream,
               "mp4: write the file so that it can be played while frames are still being made, as they are "
               "block by block (--block, or --preset self-forcing-4, which is the default with --stream)");
  register_model_parts(app, o.engine, kPartsGroup);
  register_fields(app, o, kImageGroup);
  register_fields(app, o, kFootageGroup);
  register_fields(app, o, kSpeechGroup);
  app.add_option("--size", o.size, "width and height in pixels, such as 832x480")->group(kVideoGroup);
  register_fields(app, o, kVideoGroup);
  register_encoding(app, o);
  register_fields(app, o, kSamplingGroup);
  register_fields(app, o, kWindowGroup);
  register_fields(app, o, kAdapterGroup);
  app.add_option("--lora-dir,--lora_dir,--lora-model-dir", o.lora_dir,
                 "folder of the adapters that prompts name in tags, as in stable-diffusion.cpp: "
                 "<lora:NAME:WEIGHT>, or <lora:|high_noise|NAME:WEIGHT> for one expert of a model with two")
      ->group(kAdapterGroup);
  app.add_option("--save-latents", o.save_latents, "also write the final latents to this file (.safetensors)")
      ->group(kSamplingGroup);
  register_machine(app, o);
  register_reports(app, o);
}

}  // namespace tachy::cli
