// The options of `tachyscope generate` as its command line takes them. Those of a request's fields are made of
// their table (pipelines/request_fields.h) and of their spellings (field_options.h).
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
          added->allow_extra_args(false);  // one value each time: what follows may be the prompt
      },
      field.member);
}

// Each prompt and each seed makes a video of its own: here the two are lists.
void add_prompts(CommandOptions& app, GenerateOptions& o, const FieldOption& option) {
  app.add_option(option.names, o.prompts, "what the video should show (-p again for each further video)")
      ->allow_extra_args(false)  // else a prompt in brackets would be taken for a list
      ->group(option.group);
  app.add_option("--prompt-file,--prompt_file", o.prompt_file, "a file with one prompt a line")
      ->group(option.group);
}

void add_seeds(CommandOptions& app, GenerateOptions& o, const FieldOption& option) {
  app.add_option(
         option.names, o.seeds,
         "seed of the noise, as in PyTorch (default 0; -1: one that is drawn and told; repeat for several "
         "videos)")
      ->allow_extra_args(false)  // one value each: what follows may be the prompt
      ->check(check_drawable_seed)
      ->group(option.group);
}

// The fields of a request that belong to a group of --help, in the order of their spellings.
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
  app.add_option(
         "--crf", o.crf,
         "quality of mp4 (0-51, default 16) and webm (0-63, default 24); lower is better, 0 is lossless")
      ->group(kVideoGroup);
  app.add_option("--encode-speed,--encode_speed", o.encode_speed,
                 "how long mp4 and webm may take to encode, by x264's names: ultrafast, superfast, veryfast "
                 "(default), faster, fast, medium, slow, slower, veryslow; gif and png have no such choice")
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

// Where a run computes, how, and within how much memory.
void register_machine(CommandOptions& app, GenerateOptions& o) {
  register_engine_field(app, o, "threads", "-t,--threads");
  app.add_option("--device", o.engine.device,
                 std::string(kDeviceHelp) +
                     "; on a GPU products and activations are bf16 unless --dtype says f32 or f16")
      ->group(kRunningGroup);
  register_fields(app, o, kRunningGroup);
  // A text, which parse_bytes reads.
  app.add_option("--max-vram,--max_vram,--vram-budget", o.max_vram,
                 find_field(engine_fields(), "max_vram")->help)
      ->group(kRunningGroup);
  register_engine_field(app, o, "text_cache", "--text-cache");
  app.add_flag("--no-graph", o.no_graph,
               "on a GPU: queue every kernel of every step instead of replaying a graph")
      ->group(kRunningGroup);
  app.add_flag("--no-arena", o.no_arena,
               "allocate every intermediate by itself instead of in the planned arena: for hunting memory "
               "errors with a "
               "sanitizer; slow, the same frames; on a GPU with --no-graph only")
      ->group(kRunningGroup);
  register_engine_field(app, o, "verify_upload", "--verify-upload");
  register_engine_field(app, o, "weights", "--weights");
}

// What is written beside the video and told on the way, and how a run goes on from an earlier one.
void register_reports(CommandOptions& app, GenerateOptions& o) {
  app.add_option("--profile", o.profile,
                 "write where the time went here (Chrome trace: chrome://tracing, ui.perfetto.dev), print a "
                 "table; on a "
                 "GPU by its own clock, and as NVTX ranges")
      ->group(kRunningGroup);
  app.add_flag(
         "--nvtx", o.nvtx,
         "mark stages and steps as NVTX ranges for nsys and ncu; on a GPU graphs stay (docs/profiling.md)")
      ->group(kRunningGroup);
  app.add_option("--preview", o.preview,
                 "write the latents as a small PNG here after each step; of a talking photo those of the "
                 "window under way")
      ->group(kRunningGroup);
  app.add_option("--from", o.from,
                 "repeat a run: its .json, the video itself, or the .resume of an interrupted one; other "
                 "options override it")
      ->group(kRunningGroup);
  app.add_flag(
         "--resume", o.resume,
         "go on with an interrupted run of the same settings from its last saved step (OUTPUT.resume; of a "
         "talking photo also its finished windows, in OUTPUT.windows); the frames are the same")
      ->group(kRunningGroup);
  app.add_option("--state-every", o.state_every,
                 "save the state for --resume at most every so many seconds (default 5; 0: after each step), "
                 "and after "
                 "each window of a talking photo")
      ->group(kRunningGroup);
  app.add_flag("--plan", o.plan,
               "print memory, predicted time and the implementations of ops of each stage, then stop")
      ->group(kRunningGroup);
  app.add_option("--gpu", o.gpu,
                 "with --plan: what it would take on that GPU, which need not be here: a100, h100, h200 or "
                 "l4; its time "
                 "is predicted from a table of rates (docs/speed.md)")
      ->group(kRunningGroup);
  app.add_flag("--json", o.json, "print JSON lines instead of text")->group(kRunningGroup);
  app.add_flag("-q,--quiet", o.quiet, "print nothing but errors")->group(kRunningGroup);
}

}  // namespace

void register_model_parts(CommandOptions& app, EngineOptions& engine, const char* group, bool speech) {
  for (const FieldOption& option : model_part_options()) {
    if (!speech && (option.field == "infinitetalk" || option.field == "audio_encoder")) continue;
    const EngineField& field = *find_field(engine_fields(), option.field);
    app.add_option(option.names, engine.*std::get<std::string EngineOptions::*>(field.member),
                   spelled(field.help))
        ->group(group);
  }
}

void register_vae_math(CommandOptions& app, std::string& vae_math) {
  const auto option = std::ranges::find(request_options(), "vae_math", &FieldOption::field);
  app.add_option(option->names, vae_math, spelled(find_field(request_fields(), "vae_math")->help));
}

void register_options(CommandOptions& app, GenerateOptions& o) {
  register_fields(app, o, kPromptGroup);
  app.add_option("-m,--model,--ckpt_dir,--model-path,--diffusion-model", o.model,
                 "model folder, diffusers or original Wan layout, or the file of a transformer (default: the "
                 "model that ships)");
  app.add_option("-o,--output,--save_file,--output-path", o.output,
                 "out.mp4, .webm, .gif, .png (one frame), name_%04d.png or folder/, or - for mp4 to standard "
                 "output (default: made from the prompt, .mp4)");
  app.add_flag(
      "--stream", o.stream,
      "mp4: the file grows and plays as frames are made, which is block by block with --block or --preset "
      "self-forcing-4, the default then");
  register_model_parts(app, o.engine, kPartsGroup);
  register_fields(app, o, kImageGroup);
  register_fields(app, o, kSpeechGroup);
  app.add_option("--size", o.size, "WIDTHxHEIGHT in pixels")->group(kVideoGroup);
  register_fields(app, o, kVideoGroup);
  register_encoding(app, o);
  register_fields(app, o, kSamplingGroup);
  register_fields(app, o, kWindowGroup);
  register_fields(app, o, kAdapterGroup);
  app.add_option(
         "--lora-dir,--lora_dir,--lora-model-dir", o.lora_dir,
         "the folder whose files prompts name in tags, as in stable-diffusion.cpp: <lora:NAME:WEIGHT>, or "
         "<lora:|high_noise|NAME:WEIGHT> for that expert of a model of two")
      ->group(kAdapterGroup);
  app.add_option("--save-latents", o.save_latents, "write the final latents here (.safetensors)")
      ->group(kSamplingGroup);
  register_machine(app, o);
  register_reports(app, o);
}

}  // namespace tachy::cli
