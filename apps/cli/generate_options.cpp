#include "generate_options.h"

#include <charconv>
#include <fstream>

namespace tachy::cli {
namespace {

// "832x480" or the original repository's "832*480".
void parse_size(const std::string& text, int& width, int& height) {
  const size_t cross = text.find_first_of("x*X");
  size_t used_w = 0, used_h = 0;
  try {
    require(cross != std::string::npos, "");
    width = std::stoi(text.substr(0, cross), &used_w);
    height = std::stoi(text.substr(cross + 1), &used_h);
    require(used_w == cross && used_h == text.size() - cross - 1 && width > 0 && height > 0, "");
  } catch (const std::exception&) {
    fail(ErrorCode::invalid_argument, "--size: expected WIDTHxHEIGHT such as 832x480, got '{}'", text);
  }
}

}  // namespace

std::string check_seed(const std::string& text) {
  // The parser would take -1 for 2^64 - 1, by which peers mean a random seed, and clamp what is too large.
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return "expected a whole number from 0 to 18446744073709551615, got '" + text + "'";
}

void GenerateOptions::apply(VideoRequest& r) const {
  if (!size.empty()) {
    int w = 0, h = 0;
    parse_size(size, w, h);
    r.width = w, r.height = h;
  }
  if (negative_prompt) r.negative_prompt = negative_prompt;
  if (width) r.width = width;
  if (height) r.height = height;
  if (frames) r.frames = frames;
  if (fps) r.fps = fps;
  if (steps) r.steps = steps;
  if (guidance) r.guidance = guidance;
  if (guidance_2) r.guidance_2 = guidance_2;
  if (shift) r.shift = shift;
  if (sampler) r.sampler = sampler;
  if (grid) r.grid = grid;
  if (sinusoid) r.sinusoid = sinusoid;
  if (rng) r.rng = *rng;
  if (image_fit) r.image_fit = *image_fit;
  if (rng_multiprocessors) r.rng_multiprocessors = *rng_multiprocessors;
  if (level) {  // its parts follow it unless they are given too
    r.level = *level;
    r.dtype.reset(), r.step_cache.reset(), r.residual.reset();
  }
  if (dtype) r.dtype = *dtype;
  if (residual) r.residual = *residual;
  if (step_cache) r.step_cache = step_cache;
  if (max_text_tokens) r.max_text_tokens = *max_text_tokens;
}

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

  const char* image = "Image to video";
  app.add_option("-i,--image,--init-img", o.image,
                 "the picture that the video begins with (PNG, JPEG, WebP), for models that take one")
      ->group(image);
  app.add_option("--last-image,--last_image,--last_frame,--end-img", o.last_image,
                 "the picture that it ends with, for models that take two")
      ->group(image);
  app.add_option("--image-embeds,--image_embeds", o.image_embeds,
                 "CLIP embeddings of the pictures (.safetensors, 'image_embeds'), for Wan 2.1's models")
      ->group(image);
  app.add_option("--image-fit", o.image_fit,
                 "to the video's size: stretch (default, as diffusers does it) or crop (keeps the shape)")
      ->group(image);

  const char* video = "Video";
  app.add_option("--size", o.size, "WIDTHxHEIGHT in pixels")->group(video);
  app.add_option("-W,--width", o.width, "width in pixels")->group(video);
  app.add_option("-H,--height", o.height, "height in pixels")->group(video);
  app.add_option("-f,--frames,--num-frames,--num_frames,--frame_num,--video-frames", o.frames,
                 "number of frames, 4n + 1")
      ->group(video);
  app.add_option("--fps", o.fps, "frames a second of the file")->group(video);
  app.add_option("--crf", o.crf,
                 "quality of mp4 (0-51, default 16) and webm (0-63, default 24); lower is better")
      ->group(video);
  app.add_option("--encode-speed,--encode_speed", o.encode_speed,
                 "how long mp4 and webm may take to encode, by x264's names: ultrafast, superfast, veryfast "
                 "(default), faster, fast, medium, slow, slower, veryslow; gif and png have no such choice")
      ->group(video);

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

  const char* running = "Running";
  app.add_option("-t,--threads", o.threads,
                 "threads (default: all this process may use); any number gives the same frames")
      ->group(running);
  app.add_option("--device", o.device,
                 "auto (default, or what TACHY_DEVICE says): a GPU where this build can use one; cpu, cuda, "
                 "cuda:1 …; on a GPU products and activations are bf16 unless --dtype says f32 or f16")
      ->group(running);
  app.add_option("--dtype,--precision", o.dtype,
                 "what products multiply in, whatever the level says: f32, or bf16 where the CPU has "
                 "instructions for it: "
                 "faster, within about 1 %")
      ->group(running);
  app.add_option("--residual", o.residual,
                 "on a GPU: the transformer's residual stream in f32 (as the original; default) or bf16 (as "
                 "diffusers; default of the levels from aggressive)")
      ->group(running);
  app.add_option(
         "--max-vram,--max_vram,--vram-budget", o.max_vram,
         "GPU memory that the run may take, such as 8GiB: transformer and text encoder blocks beyond it "
         "stay in host memory and pass through while others compute; the frames are the same (default: "
         "what is free)")
      ->group(running);
  app.add_option("--text-cache", o.text_cache,
                 "keep prompts' embeddings in this folder: for a prompt seen before the text encoder is not "
                 "loaded; the frames are the same (default: not kept)")
      ->group(running);
  app.add_flag("--no-graph", o.no_graph,
               "on a GPU: queue every kernel of every step instead of replaying a graph")
      ->group(running);
  app.add_flag(
         "--verify-upload", o.verify_upload,
         "on a GPU: compare the weights there with their files, after loading and after the last step: for "
         "memory that may be failing; costs seconds and the graphs, changes no frame")
      ->group(running);
  app.add_option(
         "--weights", o.weights,
         "packed (float32 copies: faster), mapped (less memory), read (files into memory at the start: they "
         "may change during the run) or auto")
      ->group(running);
  app.add_option(
         "--level", o.level,
         "none (definitions: slow), safe (float32, default), aggressive (bf16), extreme (bf16 and step "
         "cache); `tachyscope doctor` lists what each turns on here")
      ->group(running);
  app.add_option("--step-cache", o.step_cache,
                 "reuse the model's output while its predicted relative change is below this; 0: never")
      ->group(running);
  app.add_option("--profile", o.profile,
                 "write where the time went here (Chrome trace: chrome://tracing, ui.perfetto.dev), print a "
                 "table; on a "
                 "GPU by its own clock, and as NVTX ranges")
      ->group(running);
  app.add_option("--preview", o.preview, "write the latents as a small PNG here after each step")
      ->group(running);
  app.add_option("--from", o.from,
                 "repeat a run: its .json, the video itself, or the .resume of an interrupted one; other "
                 "options override it")
      ->group(running);
  app.add_flag("--resume", o.resume,
               "go on with an interrupted run of the same settings from its last saved step (OUTPUT.resume); "
               "the frames are the same")
      ->group(running);
  app.add_option("--state-every", o.state_every,
                 "save the state for --resume at most every so many seconds (default 5; 0: after each step)")
      ->group(running);
  app.add_flag("--plan", o.plan,
               "print memory, predicted time and the implementations of ops of each stage, then stop")
      ->group(running);
  app.add_flag("--json", o.json, "print JSON lines instead of text")->group(running);
  app.add_flag("-q,--quiet", o.quiet, "print nothing but errors")->group(running);
}

std::vector<std::string> all_prompts(const GenerateOptions& o) {
  std::vector<std::string> out = o.prompts;
  if (o.prompt_file.empty()) return out;
  std::ifstream in(o.prompt_file);
  check(in.good(), ErrorCode::not_found, "--prompt-file: cannot read {}", o.prompt_file);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") != std::string::npos && line[0] != '#') out.push_back(line);
  }
  require(!out.empty(), "--prompt-file: {} holds no prompt", o.prompt_file);
  return out;
}

}  // namespace tachy::cli
