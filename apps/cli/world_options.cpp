// The options of `tachyscope world`.
#include "api/fields.h"
#include "field_options.h"
#include "generate_options.h"
#include "seed.h"
#include "world_command.h"

namespace tachy::cli {
namespace {

constexpr const char* kPageGroup = "The page";

}  // namespace

void register_world_options(CommandOptions& app, WorldCommandOptions& o, std::string& seed) {
  app.add_option("prompt,-p,--prompt", o.prompt,
                 "what the video should show, for models that begin with a text (Self-Forcing, CausVid)");
  app.add_option(
      "-m,--model", o.model,
      "folder or file of Matrix-Game 2 or a model of its kind (default: the one that ships with Tachyscope)");
  app.add_option("-i,--image", o.image, "picture that the world begins with");
  app.add_option(
      "--image-embeds", o.image_embeds,
      "CLIP embeddings of that picture (.safetensors), to be used instead of the model's image encoder");
  app.add_option("--actions", o.actions, "script of keys and mouse moves to play (JSON, see docs/worlds.md)");
  app.add_option("-o,--output", o.output,
                 "video to write: .mp4, .webm, .gif, name_%04d.png or folder/, or - for mp4 on standard "
                 "output; without this option you walk in a page in the browser");
  app.add_option("--host", o.host,
                 "address or name of this machine that the page is served at (default 127.0.0.1)")
      ->group(kPageGroup);
  app.add_option("--port", o.port, "port that the page is served at (default 8190; 0: any that is free)")
      ->group(kPageGroup);
  app.add_option("--token", o.token,
                 "password in the page's address that visitors need (default: none on 127.0.0.1, a random "
                 "one elsewhere)")
      ->group(kPageGroup);
  app.add_flag("--stream", o.stream,
               "mp4: write the file so that it can be played while blocks are still being made")
      ->group(kVideoGroup);
  app.add_option("-f,--frames", o.frames, "number of frames of the video (default: as long as the script)")
      ->group(kVideoGroup);
  app.add_option("--seconds", o.seconds, "length of the video in seconds, instead of --frames")
      ->group(kVideoGroup);
  app.add_option("--fps", o.fps,
                 "frames per second of the video or page (default: the script's, otherwise the model's)")
      ->group(kVideoGroup);
  app.add_option("--size", o.size, "width and height in pixels, such as 640x352 (default: the model's)")
      ->group(kVideoGroup);
  app.add_option("-s,--seed", seed, "seed of the noise (default 0; -1: a random one, which is printed)")
      ->check(check_drawable_seed)
      ->group(kSamplingGroup);
  app.add_option("--steps", o.steps,
                 "number of denoising steps, taken evenly from the model's list (default: all of the list)")
      ->group(kSamplingGroup);
  app.add_option("--shift", o.shift, "shift of the flow schedule (default: the model's)")
      ->group(kSamplingGroup);
  app.add_option("--window", o.window,
                 "number of latent frames that a block sees, including its own (default: the model's)")
      ->group(kSamplingGroup);
  app.add_option("--level", o.level,
                 "how much accuracy to trade for speed: none, safe (default), aggressive or extreme")
      ->group(kRunningGroup);
  app.add_option("--dtype", o.dtype, "precision: f32 or bf16; on a GPU f32, f16 or bf16")
      ->group(kRunningGroup);
  register_vae_math(app, o.vae_math)->group(kRunningGroup);
  register_model_parts(app, o.engine, kPartsGroup, {"transformer_2", "infinitetalk", "audio_encoder"});
  app.add_option("--device", o.engine.device, kDeviceHelp)->group(kRunningGroup);
  app.add_option("--max-vram", o.max_vram,
                 "most GPU memory that may be taken, such as 8GiB; a world that needs more is refused")
      ->group(kRunningGroup);
  app.add_option("-t,--threads", o.engine.threads,
                 "number of threads (default: all that this process may use)")
      ->check(between(0, 1024))
      ->group(kRunningGroup);
  app.add_option("--weights", o.engine.weights,
                 "how weights are held in memory: packed, mapped, read or auto (default)")
      ->group(kRunningGroup);
  app.add_flag("--no-graph", o.no_graph,
               "on a GPU: launch every kernel by itself instead of replaying a CUDA graph")
      ->group(kRunningGroup);
  app.add_flag("--no-arena", o.no_arena,
               "allocate every intermediate by itself, to hunt memory errors; on a GPU only with --no-graph")
      ->group(kRunningGroup);
  app.add_option("--without", o.without, "switch off this optimisation alone, as for generate")
      ->allow_extra_args(false)
      ->group(kRunningGroup);
  app.add_flag("--nvtx", o.nvtx, "mark what runs as NVTX ranges for nsys and ncu; CUDA graphs stay on")
      ->group(kRunningGroup);
  app.add_option("--profile", o.profile,
                 "print the time of each module and of each component of a block, and write it to this file "
                 "as a Chrome trace (JSON)")
      ->group(kRunningGroup);
  app.add_option("--crf", o.crf,
                 "quality of mp4 (0 to 51, default 16) and webm (0 to 63, default 24): lower is better, 0 is "
                 "lossless")
      ->group(kVideoGroup);
  app.add_option("--encode-speed", o.encode_speed,
                 "speed of encoding mp4 and webm, by x264's names: ultrafast to veryslow (default veryfast)")
      ->group(kVideoGroup);
  app.add_flag("--json", o.json, "print JSON lines instead of text")->group(kRunningGroup);
  app.add_flag("-q,--quiet", o.quiet, "print nothing but errors")->group(kRunningGroup);
}

}  // namespace tachy::cli
