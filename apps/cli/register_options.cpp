// The options of `tachyscope generate` as its command line takes them: peers' spellings, what --help says.
#include "generate_options.h"

namespace tachy::cli {
namespace {

void register_image(CommandOptions& app, GenerateOptions& o) {
  app.add_option("-i,--image,--init-img", o.image,
                 "the picture that the video begins with (PNG, JPEG, WebP), for models that take one")
      ->group("Image to video");
  app.add_option("--last-image,--last_image,--last_frame,--end-img", o.last_image,
                 "the picture that it ends with, for models that take two")
      ->group("Image to video");
  app.add_option("--image-embeds,--image_embeds", o.image_embeds,
                 "CLIP embeddings of the pictures (.safetensors, 'image_embeds'), for Wan 2.1's models")
      ->group("Image to video");
  app.add_option("--image-fit", o.image_fit,
                 "to the video's size: stretch (default, as diffusers does it) or crop (keeps the shape)")
      ->group("Image to video");
}

void register_video(CommandOptions& app, GenerateOptions& o) {
  app.add_option("--size", o.size, "WIDTHxHEIGHT in pixels")->group("Video");
  app.add_option("-W,--width", o.width, "width in pixels")->group("Video");
  app.add_option("-H,--height", o.height, "height in pixels")->group("Video");
  app.add_option("-f,--frames,--num-frames,--num_frames,--frame_num,--video-frames", o.frames,
                 "number of frames, 4n + 1")
      ->group("Video");
  app.add_option("--fps", o.fps, "frames a second of the file")->group("Video");
  app.add_option("--crf", o.crf,
                 "quality of mp4 (0-51, default 16) and webm (0-63, default 24); lower is better")
      ->group("Video");
  app.add_option("--encode-speed,--encode_speed", o.encode_speed,
                 "how long mp4 and webm may take to encode, by x264's names: ultrafast, superfast, veryfast "
                 "(default), faster, fast, medium, slow, slower, veryslow; gif and png have no such choice")
      ->group("Video");
}

void register_sampling(CommandOptions& app, GenerateOptions& o) {
  const char* sampling = "Sampling";
  app.add_option("--steps,--num-inference-steps,--num_inference_steps,--sample_steps,--sampling-steps",
                 o.steps, "denoising steps")
      ->group(sampling);
  app.add_option("-g,--guidance,--guidance-scale,--guidance_scale,--cfg-scale,--sample_guide_scale",
                 o.guidance, "guidance scale; 1 or less: none, at half the cost")
      ->group(sampling);
  app.add_option(
         "--guidance-2,--guidance_2,--guidance-scale-2,--guidance_scale_2", o.guidance_2,
         "guidance scale of the low-noise expert, for models of two (Wan2.2 A14B); --guidance is then "
         "the high-noise one's (default: the same, if --guidance is given)")
      ->group(sampling);
  app.add_option("--shift,--flow-shift,--flow_shift,--sample_shift", o.shift, "shift of the flow schedule")
      ->group(sampling);
  app.add_option("--sampler,--scheduler,--sampling-method,--sample_solver", o.sampler,
                 "unipc, euler, dpm++, lcm or a list of a distilled model such as lightx2v-4")
      ->group(sampling);
  app.add_option("--grid", o.grid,
                 "whose sigmas and timesteps: diffusers or original (default: by the model's layout)")
      ->group(sampling);
  app.add_option(
         "--sinusoid", o.sinusoid,
         "time sinusoid of diffusers (float32) or original (float64) (default: by the model's layout)")
      ->group(sampling);
  app.add_option("-s,--seed,--base_seed", o.seeds,
                 "seed of the noise, as in PyTorch (default 0; repeat for several videos)")
      ->allow_extra_args(false)  // one value each: what follows may be the prompt
      ->check(check_seed)
      ->group(sampling);
  app.add_option("--rng", o.rng, "which torch generator the seed means: cpu or cuda")->group(sampling);
  app.add_option("--rng-multiprocessors", o.rng_multiprocessors,
                 "multiprocessors of the GPU that --rng cuda imitates (default 132)")
      ->group(sampling);
  app.add_option("--max-sequence-length,--max_sequence_length", o.max_text_tokens,
                 "text rows the model sees (default 512)")
      ->group(sampling);
  app.add_option("--init-latents", o.init_latents,
                 "start from these latents (.safetensors, 'latents') instead of noise")
      ->group(sampling);
  app.add_option("--save-latents", o.save_latents, "write the final latents here (.safetensors)")
      ->group(sampling);
}

constexpr const char* kRunning = "Running";

// Where a run computes, in what, and within how much memory.
void register_machine(CommandOptions& app, GenerateOptions& o) {
  app.add_option("-t,--threads", o.threads,
                 "threads (default: all this process may use); any number gives the same frames")
      ->group(kRunning);
  app.add_option("--device", o.device,
                 "auto (default, or what TACHY_DEVICE says): a GPU where this build can use one; cpu, cuda, "
                 "cuda:1 …; on a GPU products and activations are bf16 unless --dtype says f32 or f16")
      ->group(kRunning);
  app.add_option("--dtype,--precision", o.dtype,
                 "what products multiply in, whatever the level says: f32, or bf16 where the CPU has "
                 "instructions for it: "
                 "faster, within about 1 %")
      ->group(kRunning);
  app.add_option("--residual", o.residual,
                 "on a GPU: the transformer's residual stream in f32 (as the original; default) or bf16 (as "
                 "diffusers; default of the levels from aggressive)")
      ->group(kRunning);
  app.add_option(
         "--max-vram,--max_vram,--vram-budget", o.max_vram,
         "GPU memory that the run may take, such as 8GiB: transformer and text encoder blocks beyond it "
         "stay in host memory and pass through while others compute; the frames are the same (default: "
         "what is free)")
      ->group(kRunning);
  app.add_option("--text-cache", o.text_cache,
                 "keep prompts' embeddings in this folder: for a prompt seen before the text encoder is not "
                 "loaded; the frames are the same (default: not kept)")
      ->group(kRunning);
  app.add_flag("--no-graph", o.no_graph,
               "on a GPU: queue every kernel of every step instead of replaying a graph")
      ->group(kRunning);
  app.add_flag(
         "--verify-upload", o.verify_upload,
         "on a GPU: compare the weights there with their files, after loading and after the last step: for "
         "memory that may be failing; costs seconds and the graphs, changes no frame")
      ->group(kRunning);
  app.add_option(
         "--weights", o.weights,
         "packed (float32 copies: faster), mapped (less memory), read (files into memory at the start: they "
         "may change during the run) or auto")
      ->group(kRunning);
  app.add_option(
         "--level", o.level,
         "none (definitions: slow), safe (float32, default), aggressive (bf16), extreme (bf16 and step "
         "cache); `tachyscope doctor` lists what each turns on here")
      ->group(kRunning);
  app.add_option("--step-cache", o.step_cache,
                 "reuse the model's output while its predicted relative change is below this; 0: never")
      ->group(kRunning);
}

// What is written beside the video and told on the way, and how a run goes on from an earlier one.
void register_reports(CommandOptions& app, GenerateOptions& o) {
  app.add_option("--profile", o.profile,
                 "write where the time went here (Chrome trace: chrome://tracing, ui.perfetto.dev), print a "
                 "table; on a "
                 "GPU by its own clock, and as NVTX ranges")
      ->group(kRunning);
  app.add_option("--preview", o.preview, "write the latents as a small PNG here after each step")
      ->group(kRunning);
  app.add_option("--from", o.from,
                 "repeat a run: its .json, the video itself, or the .resume of an interrupted one; other "
                 "options override it")
      ->group(kRunning);
  app.add_flag("--resume", o.resume,
               "go on with an interrupted run of the same settings from its last saved step (OUTPUT.resume); "
               "the frames are the same")
      ->group(kRunning);
  app.add_option("--state-every", o.state_every,
                 "save the state for --resume at most every so many seconds (default 5; 0: after each step)")
      ->group(kRunning);
  app.add_flag("--plan", o.plan,
               "print memory, predicted time and the implementations of ops of each stage, then stop")
      ->group(kRunning);
  app.add_flag("--json", o.json, "print JSON lines instead of text")->group(kRunning);
  app.add_flag("-q,--quiet", o.quiet, "print nothing but errors")->group(kRunning);
}

}  // namespace

void register_options(CommandOptions& app, GenerateOptions& o) {
  app.add_option("prompt,-p,--prompt", o.prompts,
                 "what the video should show (-p again for each further video)")
      ->allow_extra_args(false);  // else a prompt in brackets would be taken for a list
  app.add_option("--prompt-file,--prompt_file", o.prompt_file, "a file with one prompt a line");
  app.add_option("-n,--negative-prompt,--negative_prompt,--n_prompt", o.negative_prompt,
                 "what it should not show");
  app.add_option("-m,--model,--ckpt_dir,--model-path", o.model,
                 "model folder, diffusers or original Wan layout (default: the one that ships)");
  app.add_option("-o,--output,--save_file,--output-path", o.output,
                 "out.mp4, .webm, .gif, .png (one frame), name_%04d.png or folder/ (default: made from the "
                 "prompt, .mp4)");
  register_image(app, o);
  register_video(app, o);
  register_sampling(app, o);
  register_machine(app, o);
  register_reports(app, o);
}

}  // namespace tachy::cli
