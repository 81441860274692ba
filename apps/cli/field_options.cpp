#include "field_options.h"

namespace tachy::cli {
namespace {

constexpr FieldOption kRequestOptions[] = {
    {"prompt", "prompt,-p,--prompt", kPromptGroup},
    {"negative_prompt", "-n,--negative-prompt,--negative_prompt,--n_prompt", kPromptGroup},

    {"image", "-i,--image,--init-img,--photo", kImageGroup},
    {"last_image", "--last-image,--last_image,--last_frame,--end-img", kImageGroup},
    {"image_embeds", "--image-embeds,--image_embeds", kImageGroup},
    {"image_fit", "--image-fit", kImageGroup},
    {"clip_preparation", "--clip-preparation,--clip_preparation", kImageGroup},

    {"video", "--video,--input-video,--input_video", kFootageGroup},
    {"strength", "--strength,--denoise,--denoising-strength", kFootageGroup},
    {"control_video", "--control-video,--control_video,--src_video", kFootageGroup},
    {"mask_video", "--mask-video,--mask_video,--src_mask", kFootageGroup},
    {"reference", "--reference,--reference-image,--src_ref_images", kFootageGroup},
    {"reference_2", "--reference-2,--reference_2", kFootageGroup},
    {"reference_3", "--reference-3,--reference_3", kFootageGroup},
    {"reference_4", "--reference-4,--reference_4", kFootageGroup},
    {"vace_strength", "--vace-strength,--vace_strength,--conditioning-scale,--conditioning_scale",
     kFootageGroup},
    {"outpaint", "--outpaint", kFootageGroup},
    {"keep", "--keep", kFootageGroup},

    {"speech", "--audio,--speech,--cond-audio,--cond_audio", kSpeechGroup},
    {"speech_2", "--audio-2,--audio_2,--speech-2", kSpeechGroup},
    {"speakers", "--speakers,--audio-type,--audio_type", kSpeechGroup},
    {"speaker_boxes", "--speaker-box,--speaker_box,--speaker-boxes", kSpeechGroup},
    {"speaker_mask", "--speaker-mask,--speaker_mask", kSpeechGroup},
    {"speaker_mask_2", "--speaker-mask-2,--speaker_mask_2", kSpeechGroup},
    {"audio_guidance",
     "--audio-guidance,--audio_guidance,--audio-guidance-scale,--audio_guidance_scale,--audio-cfg-scale,"
     "--sample_audio_guide_scale",
     kSpeechGroup},
    {"motion_frames", "--motion-frames,--motion_frames,--motion-frame,--motion_frame", kSpeechGroup},
    {"recipe", "--recipe", kSpeechGroup},
    {"color_correction",
     "--color-correction,--color_correction,--color-correction-strength,--color_correction_strength",
     kSpeechGroup},

    {"width", "-W,--width", kVideoGroup},
    {"height", "-H,--height", kVideoGroup},
    {"frames", "-f,--frames,--num-frames,--num_frames,--frame_num,--video-frames", kVideoGroup},
    {"fps", "--fps", kVideoGroup},

    {"preset", "--preset", kSamplingGroup},
    {"steps", "--steps,--num-inference-steps,--num_inference_steps,--sample_steps,--sampling-steps",
     kSamplingGroup},
    {"guidance", "-g,--guidance,--guidance-scale,--guidance_scale,--cfg-scale,--sample_guide_scale",
     kSamplingGroup},
    {"guidance_2", "--guidance-2,--guidance_2,--guidance-scale-2,--guidance_scale_2", kSamplingGroup},
    {"high_noise_steps", "--high-noise-steps,--high_noise_steps", kSamplingGroup},
    {"shift", "--shift,--flow-shift,--flow_shift,--sample_shift", kSamplingGroup},
    {"sampler", "--sampler,--scheduler,--sampling-method,--sample_solver", kSamplingGroup},
    {"grid", "--grid", kSamplingGroup},
    {"sinusoid", "--sinusoid", kSamplingGroup},
    {"seed", "-s,--seed,--base_seed", kSamplingGroup},
    {"rng", "--rng", kSamplingGroup},
    {"rng_multiprocessors", "--rng-multiprocessors", kSamplingGroup},
    {"max_text_tokens", "--max-sequence-length,--max_sequence_length", kSamplingGroup},
    {"init_latents", "--init-latents", kSamplingGroup},

    {"windows", "--windows,--context-windows,--context_windows", kWindowGroup},
    {"window_frames", "--window-frames,--context-frames,--context_frames", kWindowGroup},
    {"window_overlap", "--window-overlap,--context-overlap,--context_overlap", kWindowGroup},
    {"window_stride", "--window-stride,--context-stride,--context_stride", kWindowGroup},
    {"window_mask", "--window-mask,--window_mask", kWindowGroup},
    {"free_noise", "--free-noise,--freenoise", kWindowGroup},
    {"riflex", "--riflex", kWindowGroup},
    {"block", "--block", kWindowGroup},
    {"block_window", "--block-window", kWindowGroup},

    {"loras", "--lora,--loras", kAdapterGroup},
    {"lora_mode", "--lora-mode,--lora_mode", kAdapterGroup},
    {"lora_unmatched", "--lora-unmatched,--lora_unmatched", kAdapterGroup},

    {"level", "--level", kRunningGroup},
    {"dtype", "--dtype,--precision", kRunningGroup},
    {"without", "--without", kRunningGroup},
    {"residual", "--residual", kRunningGroup},
    {"attention", "--attention", kRunningGroup},
    {"int8_keys", "--int8-keys,--int8_keys", kRunningGroup},
    {"math", "--math", kRunningGroup},
    {"vae_math", "--vae-math,--vae_math", kRunningGroup},
    {"step_cache", "--step-cache", kRunningGroup},
    {"step_cache_kind", "--step-cache-kind,--step_cache_kind", kRunningGroup},
    {"sparse_attention", "--sparse-attention,--sparse_attention", kRunningGroup},
    {"sparse_chooser", "--sparse-chooser,--sparse_chooser", kRunningGroup},
    {"sparse_dense_steps", "--sparse-dense-steps,--sparse_dense_steps", kRunningGroup},
};

constexpr FieldOption kModelPartOptions[] = {
    {"text_encoder", "--text-encoder,--text_encoder,--t5xxl"},
    {"vae", "--vae"},
    {"image_encoder", "--image-encoder,--image_encoder,--clip-vision,--clip_vision"},
    {"tokenizer", "--tokenizer"},
    {"transformer_2", "--transformer-2,--transformer_2"},
    {"infinitetalk", "--infinitetalk,--infinitetalk_dir"},
    {"audio_encoder", "--audio-encoder,--audio_encoder,--wav2vec2,--wav2vec_dir"},
};

// Other things that messages name: options of an engine, of a video's file, and of commands that inspect.
constexpr FieldOption kOtherOptions[] = {
    {"model", "--model"},
    {"device", "--device"},
    {"threads", "--threads"},
    {"ranks", "--ranks"},
    {"gpus", "--gpus"},
    {"parallel", "--parallel"},
    {"distributed", "--distributed"},
    {"weights", "--weights"},
    {"arena", "--no-arena"},
    {"graphs", "--no-graph"},
    {"nvtx", "--nvtx"},
    {"max_vram", "--max-vram"},
    {"text_cache", "--text-cache"},
    {"verify_upload", "--verify-upload"},
    {"plan", "--plan"},
    {"resume", "--resume"},
    {"gpu", "--gpu"},
    {"window", "--window"},
    {"blocks", "--blocks"},
    {"host", "--host"},
    {"port", "--port"},
    {"token", "--token"},
    {"crf", "--crf"},
    {"speed", "--encode-speed"},
    {"input", "--in"},
    {"from", "--from"},
    {"output", "--output"},
    {"preview", "--preview"},
    {"save_latents", "--save-latents"},
    {"profile", "--profile"},
    {"raw", "--raw"},
    {"out", "--out"},
    {"shape", "--shape"},
    {"filter", "--op"},
    {"modes", "--mode"},
    {"relative", "--relative"},
    {"rounds", "--rounds"},
    {"cases", "--cases"},
    {"dtypes", "--dtype"},
    {"seconds_per_case", "--seconds"},
    {"golden", "--golden"},
    {"models", "--models"},
    {"pictures", "--input"},
    {"to", "--to"},
    {"part", "--part"},
    {"max_shard_size", "--max-shard-size"},
    {"overwrite", "--overwrite"},
};

// Returns the first long name of "-s,--seed,--base_seed".
std::string_view long_name(std::string_view names) {
  names.remove_prefix(names.find("--"));
  return names.substr(0, names.find(','));
}

}  // namespace

std::span<const FieldOption> request_options() { return kRequestOptions; }

std::span<const FieldOption> model_part_options() { return kModelPartOptions; }

std::string_view option_of(std::string_view field) {
  for (const auto& options :
       {request_options(), model_part_options(), std::span<const FieldOption>(kOtherOptions)})
    for (const FieldOption& option : options)
      if (option.field == field) return long_name(option.names);
  return "";
}

}  // namespace tachy::cli
