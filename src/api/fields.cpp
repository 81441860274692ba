#include "api/fields.h"

namespace tachy {

const std::vector<EngineField>& engine_fields() {
  using E = EngineOptions;
  static const std::vector<EngineField> all = {
      {"threads", &E::threads,
       "threads (default: all this process may use); any number gives the same frames", kThreadsRange},
      {"weights", &E::weights,
       "packed (float32 copies: faster), mapped (less memory), read (files into memory at the start: they "
       "may "
       "change during the run) or auto",
       Choices{"auto", "packed", "mapped", "read"}},
      {"keep_loaded", &E::keep_loaded,
       "keep the model, and what a run of the same shape needs, for the next request"},
      {"device", &E::device,
       "cpu, cuda, cuda:1 …, or auto: a GPU where this build can use one; on a GPU products and activations "
       "are bf16 unless `dtype` says f32 or f16"},
      {"graphs", &E::graphs, "on a GPU: replay a graph of each step instead of queueing every kernel of it"},
      {"arena", &E::arena, "lay all intermediates in one block of memory that is planned beforehand"},
      {"max_vram", &E::max_vram,
       "GPU memory that the run may take, such as 8GiB: transformer and text encoder blocks beyond it stay "
       "in "
       "host memory and pass through while others compute; the frames are the same (default: what is free)"},
      {"text_cache", &E::text_cache,
       "keep prompts' embeddings in this folder: for a prompt seen before the text encoder is not loaded; "
       "the "
       "frames are the same (default: not kept)"},
      {"verify_upload", &E::verify_upload,
       "on a GPU: compare the weights there with their files, after loading and after the last step: for "
       "memory that may be failing; costs seconds and the graphs, changes no frame"},
      {"text_encoder", &E::text_encoder,
       "the text encoder, in place of the model's or for a model that is one file: a umT5 file "
       "(umt5_xxl_fp16.safetensors), a component's folder, or a model's folder (default: the model's own; of "
       "a "
       "file in ComfyUI's folders the only one there that fits)"},
      {"vae", &E::vae,
       "the VAE, likewise: a file (wan_2.1_vae.safetensors), a component's folder, or a model's folder"},
      {"image_encoder", &E::image_encoder,
       "CLIP's vision model, through which Wan 2.1's image-to-video models look at their pictures, likewise: "
       "a file "
       "(clip_vision_h.safetensors), a component's folder, or a model's folder"},
      {"tokenizer", &E::tokenizer,
       "tokenizer.json, spiece.model or a folder that has one (default: what the text encoder's file "
       "carries, "
       "or what lies beside it)"},
      {"transformer_2", &E::transformer_2,
       "the low-noise expert of Wan 2.2 A14B, whose high-noise one is the model"},
      {"infinitetalk", &E::infinitetalk,
       "InfiniteTalk's file (infinitetalk.safetensors), laid over an image-to-video model's transformer, "
       "which then "
       "follows speech"},
      {"audio_encoder", &E::audio_encoder,
       "the wav2vec2 through which such a model hears speech (chinese-wav2vec2-base): its folder or file "
       "(default: "
       "audio_encoder in the model's folder)"},
  };
  return all;
}

void check_fields(const EngineOptions& options) {
  for (const EngineField& field : engine_fields())
    std::visit([&](auto member) { check_allowed(field.name, options.*member, field.allowed); }, field.member);
}

}  // namespace tachy
