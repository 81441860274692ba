/* The second request of the C interface, with all that the engine takes: pictures, sounds, latents, presets,
 * adapters, and every setting of the table in request/request_fields.h. A run is one request on an engine; it
 * has a plan, settings with every default filled in, callbacks and a cancellation of its own.
 *
 * The first member of a struct that is handed in is its size, sizeof of that struct. Fields are only ever added
 * at the end. A program that was compiled with an older header leaves the new ones out, and what a newer one
 * has filled in beyond this header is refused. */
#ifndef TACHYSCOPE_C_V2_H
#define TACHYSCOPE_C_V2_H

#include "api/tachyscope_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A field by its name and its value as text: {"steps", "20"}. A list has one setting for each of its values. */
typedef struct {
  const char *name, *value;
} tachyscope_setting;

/* A picture is a file, or rgb [height, width, 3] of any size. All data is copied. */
typedef struct {
  const char* path;
  const uint8_t* rgb;
  int32_t width, height;
} tachyscope_picture;

/* A sound is a file, or one channel of count samples at `rate` Hz, where full scale is -1 to 1. */
typedef struct {
  const char* path;
  const float* samples;
  int64_t count;
  int32_t rate;
} tachyscope_sound;

/* Numbers of a shape with `dims` sides, or a .safetensors file. */
typedef struct {
  const char* path;
  const float* values;
  const int64_t* shape;
  int32_t dims;
} tachyscope_tensor;

/* Zero and null mean the model's default. (A guidance of 1 turns guidance off; so does {"guidance", "0"}.) */
typedef struct {
  uint64_t size;
  const char *prompt, *negative_prompt, *preset;
  int32_t width, height, frames, steps;
  double guidance, guidance_2, shift;
  uint64_t seed;
  const char* const* loras; /* as in tachyscope_request */
  int32_t lora_count;
  /* All other fields, by the names that docs/options.md has or by the keys of a video's settings. They come
   * after the members above. */
  int32_t setting_count;
  const tachyscope_setting* settings;
  const tachyscope_picture *image, *last_image, *speaker_mask, *speaker_mask_2;
  const tachyscope_sound *speech, *speech_2;
  const tachyscope_tensor *init_latents, *image_embeds;
  /* Paths of a film, a folder of pictures, a pattern such as f_%04d.png, or one picture. A struct may end before them,
   * as that of an older header does. */
  const char *video, *control_video, *mask_video;
  const tachyscope_picture *reference, *reference_2, *reference_3, *reference_4;
} tachyscope_request_v2;

typedef struct {
  const char* stage;
  int64_t done, total;
  double elapsed_seconds, eta_seconds; /* eta_seconds is negative while it is not known */
  int64_t window, windows;
} tachyscope_progress;

/* Frames [count, height, width, 3] where they were made: in the memory of the GPU of that number, or in the host's if
 * it is -1. They may be read until the call returns, and work on a GPU that reads them has to be done by then. */
typedef struct {
  const uint8_t* rgb;
  int32_t gpu, width, height;
  int64_t first, count;
} tachyscope_device_frames;

/* Each may be null. Those that return a number end the run unless that is 0. They come in the thread
 * that called tachyscope_run_generate. */
typedef struct {
  uint64_t size;
  void* user;
  tachyscope_frame_fn frame;
  tachyscope_frame_fn preview; /* the latents as small pictures side by side; the index is the step */
  void (*progress)(void* user, const tachyscope_progress* progress);
  int (*latents)(void* user, const float* values, const int64_t* shape, int32_t dims); /* of each window */
  /* Gets frames without a copy, in place of `frame`. Videos that are made block by block go to `frame` all the same. */
  int (*device_frames)(void* user, const tachyscope_device_frames* frames);
} tachyscope_callbacks;

typedef struct {
  int32_t width, height;
  int64_t frames;
  double fps;
} tachyscope_video_size;

/* Opens a model with options of the table in api/fields.h, such as {"device", "cuda"} or {"max_vram", "8GiB"};
 * without `device` the machine chooses. A null model is the one that ships. The model stays loaded. */
int tachyscope_open(const char* model, const tachyscope_setting* options, int32_t option_count,
                    tachyscope_engine** out);
/* Returns the tables of fields as JSON: {"request": […], "inputs": […], "engine": […]}. */
const char* tachyscope_fields(void);

/* A run ends with tachyscope_run_free, before its engine does. Its functions belong to one thread at a time;
 * only tachyscope_run_cancel may be called beside them, and after it they return 130. Whatever a run hands out
 * is valid until it is freed. */
typedef struct tachyscope_run tachyscope_run;
int tachyscope_run_open(tachyscope_engine* engine, const tachyscope_request_v2* request,
                        tachyscope_run** out);
/* The first call of these four resolves, tokenises and plans the request, once; none loads anything. */
int tachyscope_run_plan(tachyscope_run* run, tachyscope_plan_result* out);
int tachyscope_run_size(tachyscope_run* run, tachyscope_video_size* out);
/* The settings are JSON, as `tachyscope generate` writes it into a video. */
int tachyscope_run_settings(tachyscope_run* run, const char** json);
/* The sound of the video, which is as long as the video; without speech it has no samples. */
int tachyscope_run_sound(tachyscope_run* run, tachyscope_sound* out);
int tachyscope_run_generate(tachyscope_run* run, const tachyscope_callbacks* callbacks);
void tachyscope_run_cancel(tachyscope_run* run);
void tachyscope_run_free(tachyscope_run* run);

/* Writes frames [frames, height, width, 3] to a video or to pictures, by the ending of the name (mp4, webm,
 * gif, png). */
typedef struct {
  uint64_t size;
  const uint8_t* rgb;
  int64_t frames;
  int32_t width, height;
  double fps;
  const char* settings;          /* JSON that goes into the file, or null */
  const tachyscope_sound* sound; /* null: none */
  int32_t has_crf, crf;          /* crf counts if has_crf is not zero */
  const char* speed;             /* of the encoder; null: the usual one */
} tachyscope_video;
int tachyscope_save(const char* path, const tachyscope_video* video);

#ifdef __cplusplus
}
#endif
#endif
