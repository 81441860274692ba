/* The C interface of Tachyscope, for other languages. Every call returns 0 or an error code (the numbers of
 * `tachyscope`'s exit codes); tachyscope_last_error() has the text of the calling thread's last failure.
 *
 * An engine is a model, and any number of threads may use it at once, each for a run of its own. If the memory
 * of a run does not fit on the device beside that of other runs, of this engine or another one, it waits for
 * them; runs are served in the order in which they came. Only tachyscope_free must be the last call. */
#ifndef TACHYSCOPE_C_H
#define TACHYSCOPE_C_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tachyscope_engine tachyscope_engine;

/* Zero or negative numbers (and null pointers) mean the model's default; for guidance and shift only negative
 * ones do. Fields are only ever added at the end, and zero there means what leaving them out meant before. */
typedef struct {
  const char* prompt;
  const char* negative_prompt;
  int32_t width, height, frames, steps;
  double guidance, shift;
  uint64_t seed;
  double guidance_2; /* for the low-noise expert of a model with two; 0 or less: as guidance; 1: none */
  /* There are lora_count adapters, each as "FILE[:strength][@high|@low|@both]". lora_mode is merge, runtime, or
   * null, which decides by whether the model stays loaded. */
  const char* const* loras;
  int32_t lora_count;
  const char* lora_mode;
} tachyscope_request;

/* rgb is [height, width, 3], valid during the call. A return value other than zero cancels this run. */
typedef int (*tachyscope_frame_fn)(void* user, const uint8_t* rgb, int32_t width, int32_t height,
                                   int64_t index);
typedef void (*tachyscope_progress_fn)(void* user, const char* stage, int64_t done, int64_t total,
                                       double eta_seconds);

typedef struct {
  uint64_t peak_bytes;
  double seconds;
} tachyscope_plan_result;

const char* tachyscope_version(void);
const char* tachyscope_last_error(void);
int tachyscope_load(const char* model_folder, int32_t threads, tachyscope_engine** out);
/* Loads onto a device: "cpu", "cuda", "cuda:1" or "auto". max_vram_bytes is the GPU memory that all runs
 * together may take; 0 means all that is free. */
int tachyscope_load_on(const char* model_folder, const char* device, uint64_t max_vram_bytes, int32_t threads,
                       tachyscope_engine** out);
/* The files of a model, given separately: null pointers mean the model's own parts. `model` is a folder or a
 * transformer's file; each of the others is a file, a component's folder, or the folder of a model that has
 * this part. */
typedef struct {
  const char *model, *transformer_2, *text_encoder, *vae, *tokenizer;
} tachyscope_model_files;
int tachyscope_load_files(const tachyscope_model_files* files, const char* device, uint64_t max_vram_bytes,
                          int32_t threads, tachyscope_engine** out);
void tachyscope_free(tachyscope_engine* engine);
int tachyscope_plan(tachyscope_engine* engine, const tachyscope_request* request,
                    tachyscope_plan_result* out);
int tachyscope_generate(tachyscope_engine* engine, const tachyscope_request* request,
                        tachyscope_frame_fn frame, tachyscope_progress_fn progress, void* user);
/* May be called from any thread: every generate that is running on the engine returns 130. */
void tachyscope_cancel(tachyscope_engine* engine);

/* A world that answers (api/world.h): one session on one device. start, next_block and reset belong to one
 * thread; any thread may call act and stop; close must be the last call. */
typedef struct tachyscope_world tachyscope_world;

/* Zero means the model's own value; so does a shift of 0 or less. Fields are only ever added at the end. */
typedef struct {
  int32_t width, height, steps, window;
  double shift;
  uint64_t max_vram_bytes;
  int32_t threads;
} tachyscope_world_options;

typedef struct {
  /* kind is "universal", "gta", "templerun", "self-forcing" …; it is valid until close, as are the keys */
  const char* kind;
  const char* const* keys;  /* key_count names, one for each value of the keyboard */
  int32_t key_count, mouse; /* mouse is 1 if there is one */
  double mouse_step, fps;
  int32_t width, height, takes_image, takes_prompt;
  int64_t first_block_frames, block_frames;
  uint64_t peak_bytes;
} tachyscope_world_info;

/* rgb is a picture of any size, [height, width, 3], for worlds that take one; prompt is for worlds that take
 * a prompt. */
typedef struct {
  const uint8_t* rgb;
  int32_t width, height;
  const char* prompt;
  uint64_t seed;
} tachyscope_world_start_with;

typedef struct {
  int64_t index, first_frame, frames;
  uint64_t stamp;             /* the stamp of the action that the block followed */
  double first_frame_seconds; /* from taking that action until the first frame was there */
  double seconds;             /* time of the whole call */
} tachyscope_world_block;

/* device is as in tachyscope_load_on; options may be null. */
int tachyscope_world_open(const char* model, const char* device, const tachyscope_world_options* options,
                          tachyscope_world** out);
/* Opens a world on an engine's model, device and threads, which it shares with the engine's runs and other
 * worlds: the weights are in memory once, and several worlds may be played at the same time, each in a thread
 * of its own. options are null, or have zero threads and max_vram_bytes. The world may outlive the engine. */
int tachyscope_world_open_on(tachyscope_engine* engine, const tachyscope_world_options* options,
                             tachyscope_world** out);
int tachyscope_world_about(const tachyscope_world* world, tachyscope_world_info* out);
int tachyscope_world_start(tachyscope_world* world, const tachyscope_world_start_with* with);
/* keyboard has a value for each key, from -1 to 1, and mouse is [pitch, yaw]; null means that nothing is held.
 * The action holds from the next block on. */
int tachyscope_world_act(tachyscope_world* world, const float* keyboard, int32_t key_count,
                         const float* mouse, uint64_t stamp);
/* block may be null. If the callback returns a value other than zero, that acts like tachyscope_world_stop. */
int tachyscope_world_next_block(tachyscope_world* world, tachyscope_frame_fn frame, void* user,
                                tachyscope_world_block* block);
void tachyscope_world_stop(
    tachyscope_world* world); /* next_block returns 130 soon; start and reset continue */
int tachyscope_world_reset(tachyscope_world* world);
void tachyscope_world_close(tachyscope_world* world);

#ifdef __cplusplus
}
#endif
#endif
