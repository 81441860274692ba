#include "api/fields.h"

#include "session/model.h"

namespace tachy {

const std::vector<EngineField>& engine_fields() {
  using E = EngineOptions;
  static const std::vector<EngineField> all = {
      {"threads", &E::threads,
       "number of threads (default: all that this process may use); any number gives the same frames",
       kThreadsRange},
      {"ranks", &E::ranks,
       "on the CPU: divide each denoising pass among so many ranks, as several devices would (1 to 16); "
       "`threads` is of all of them together; the frames are the same",
       kRanksRange},
      {"gpus", &E::gpus,
       "use several GPUs of this machine: all, how many, or which (0,2); they share each denoising pass, and "
       "the first one does the rest (generate gives each GPU videos of its own where there are enough)"},
      {"parallel", &E::parallel,
       "how ranks share a pass: auto (guidance's branches first, then heads), or the numbers of ranks for "
       "branches, heads and keys that go round, such as cfg=2,ulysses=4,ring=1; their product is `ranks`; a "
       "ring above 1 changes the frames' last bits"},
      {"weights", &E::weights,
       "how weights are held in memory: packed (float32 copies: faster), mapped (less memory), read (the "
       "files are read into memory at the start, so they may change during the run) or auto (default)",
       Choices{"auto", "packed", "mapped", "read"}},
      {"keep_loaded", &E::keep_loaded,
       "keep the model, and what a run of the same shape needs, for the next request"},
      {"device", &E::device,
       "cpu, cuda, cuda:1 …, or auto: a GPU if there is one that this build can use; on a GPU, products and "
       "activations are bf16 unless `dtype` says f32 or f16"},
      {"graphs", &E::graphs, "on a GPU: replay a graph of each step instead of queueing every kernel of it"},
      {"arena", &E::arena, "lay all intermediates in one block of memory that is planned beforehand"},
      {"max_vram", &E::max_vram,
       "most GPU memory that the run may take, such as 8GiB; parts of the transformer and the text encoder "
       "that do not fit stay in host memory and are copied over when they are needed; the frames are the "
       "same (default: what is free)"},
      {"text_cache", &E::text_cache,
       "keep encoded prompts in this folder, so that the text encoder need not be loaded for a prompt seen "
       "before; the frames are the same (default: not kept)"},
      {"verify_upload", &E::verify_upload,
       "on a GPU whose memory may be failing: compare the weights there with their files after loading and "
       "after the last step; takes seconds, runs without CUDA graphs, and changes no frame"},
      {"text_encoder", &E::text_encoder,
       "text encoder to use instead of the model's own, or for a model that is a single file: a umT5 file "
       "(umt5_xxl_fp16.safetensors), a component's folder, or a model's folder (default: the model's own; "
       "for a file in ComfyUI's folders the only one there that fits)"},
      {"vae", &E::vae,
       "VAE to use instead of the model's own: a file (wan_2.1_vae.safetensors), a component's folder, or a "
       "model's folder"},
      {"image_encoder", &E::image_encoder,
       "CLIP vision model through which Wan 2.1's image-to-video models see their pictures: a file "
       "(clip_vision_h.safetensors), a component's folder, or a model's folder"},
      {"tokenizer", &E::tokenizer,
       "tokenizer.json, spiece.model or a folder that has one of them (default: the one inside the text "
       "encoder's file or beside it)"},
      {"transformer_2", &E::transformer_2,
       "low-noise expert of Wan 2.2 A14B; the high-noise one is given as the model"},
      {"infinitetalk", &E::infinitetalk,
       "InfiniteTalk's file (infinitetalk.safetensors), which makes an image-to-video model follow speech"},
      {"audio_encoder", &E::audio_encoder,
       "wav2vec2 model through which InfiniteTalk hears speech (chinese-wav2vec2-base): its folder or file "
       "(default: audio_encoder in the model's folder)"},
      {"idle_seconds", &E::idle_seconds,
       "where the model stays loaded: seconds after which what is kept for a run of the same shape is given "
       "back, 0: at once, -1: never",
       Range{.least = EngineOptions::kAlwaysKept, .most = 1e9}},
  };
  return all;
}

std::span<const ModelPart> model_parts() {
  using E = EngineOptions;
  using P = PartPaths;
  static constexpr ModelPart all[] = {{"text_encoder", &E::text_encoder, &P::text_encoder},
                                      {"vae", &E::vae, &P::vae},
                                      {"image_encoder", &E::image_encoder, &P::image_encoder},
                                      {"tokenizer", &E::tokenizer, &P::tokenizer},
                                      {"transformer_2", &E::transformer_2, &P::transformer_2},
                                      {"infinitetalk", &E::infinitetalk, &P::infinitetalk},
                                      {"audio_encoder", &E::audio_encoder, &P::audio_encoder}};
  return all;
}

PartPaths part_paths(const EngineOptions& options) {
  PartPaths paths;
  for (const ModelPart& part : model_parts()) paths.*part.path = options.*part.option;
  return paths;
}

void check_fields(const EngineOptions& options) { check_members(engine_fields(), options); }

Parallel parallel_of(const EngineOptions& options, int gpus) {
  if (options.crew) return parse_parallel(options.parallel, processes_of(*options.crew), "distributed");
  if (!options.gpus.empty()) return parse_parallel(options.parallel, gpus, "gpus");
  return parse_parallel(options.parallel, options.ranks);
}

void check_ranks(const EngineOptions& options) {
  check_range("ranks", options.ranks, kRanksRange);
  require(options.ranks == 1 || options.gpus.empty(),
          "`ranks`: they are on the CPU; leave them or `gpus` out");
  require(options.ranks == 1 || !options.device.starts_with("cuda"),
          "`ranks`: only a run on the CPU has several; leave it out, or choose `device` cpu");
  require(!options.crew || options.gpus.empty(),
          "`gpus`: several processes (`distributed`) take one GPU each; leave one of them out");
  parallel_of(options);
}

}  // namespace tachy
