/* A request of the second form (tachyscope_c_v2.h) inside a C program: settings by name, the plan, progress, frames into
 * an mp4 file with its settings, and a run that is cancelled.
 *   example_embed_c_v2 MODEL_FOLDER "a prompt" OUTPUT.mp4 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/tachyscope_c_v2.h"

typedef struct {
  uint8_t* rgb;
  size_t frame_bytes;
  int64_t frames, stop_after_steps; /* 0: never */
} Clip;

static int on_frame(void* user, const uint8_t* rgb, int32_t width, int32_t height, int64_t index) {
  Clip* clip = user;
  clip->frame_bytes = (size_t)3 * (size_t)width * (size_t)height;
  memcpy(clip->rgb + (size_t)index * clip->frame_bytes, rgb, clip->frame_bytes);
  ++clip->frames;
  return 0;
}

static int on_preview(void* user, const uint8_t* rgb, int32_t width, int32_t height, int64_t step) {
  (void)rgb, (void)width, (void)height;
  const Clip* clip = user;
  return clip->stop_after_steps && step + 1 >= clip->stop_after_steps; /* not zero ends the run */
}

static void on_progress(void* user, const tachyscope_progress* p) {
  (void)user;
  if (p->done == p->total) printf("%s: %.2f s\n", p->stage, p->elapsed_seconds);
}

static int make(tachyscope_run* run, const char* path) {
  tachyscope_plan_result plan;
  tachyscope_video_size size;
  const char* settings = NULL;
  int code = tachyscope_run_plan(run, &plan);
  if (!code) code = tachyscope_run_size(run, &size);
  if (!code) code = tachyscope_run_settings(run, &settings);
  if (code) return code;
  printf("%lld frames of %dx%d, %llu bytes of memory\n", (long long)size.frames, size.width, size.height,
         (unsigned long long)plan.peak_bytes);

  Clip clip = {0};
  clip.rgb = malloc((size_t)3 * (size_t)size.width * (size_t)size.height * (size_t)size.frames);
  if (!clip.rgb) return 7;
  tachyscope_callbacks callbacks = {0};
  callbacks.size = sizeof callbacks;
  callbacks.user = &clip;
  callbacks.frame = on_frame;
  callbacks.progress = on_progress;
  code = tachyscope_run_generate(run, &callbacks);
  if (!code) {
    tachyscope_video video = {0};
    video.size = sizeof video;
    video.rgb = clip.rgb;
    video.frames = clip.frames;
    video.width = size.width, video.height = size.height;
    video.fps = size.fps;
    video.settings = settings;
    code = tachyscope_save(path, &video);
  }
  free(clip.rgb);
  return code;
}

/* Makes the same again and ends it after the first step; the code is then 130. */
static int cancelled(tachyscope_run* run) {
  Clip clip = {0};
  clip.stop_after_steps = 1;
  tachyscope_callbacks callbacks = {0};
  callbacks.size = sizeof callbacks;
  callbacks.user = &clip;
  callbacks.preview = on_preview;
  return tachyscope_run_generate(run, &callbacks) == 130 ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s MODEL_FOLDER PROMPT OUTPUT.mp4\n", argv[0]);
    return 2;
  }
  tachyscope_engine* engine = NULL;
  tachyscope_run* run = NULL;
  int code = tachyscope_open(argv[1], NULL, 0, &engine);
  if (!code) {
    const tachyscope_setting settings[] = {{"steps", "3"}, {"level", "safe"}};
    tachyscope_request_v2 request = {0};
    request.size = sizeof request;
    request.prompt = argv[2];
    request.frames = 5;
    request.seed = 7;
    request.settings = settings;
    request.setting_count = 2;
    code = tachyscope_run_open(engine, &request, &run);
    if (!code) code = make(run, argv[3]);
    tachyscope_run_free(run);
    run = NULL;
    if (!code) code = tachyscope_run_open(engine, &request, &run);
    if (!code && cancelled(run)) code = 1;
    if (!code) printf("a second run was ended after its first step\n");
  }
  if (code) fprintf(stderr, "error %d: %s\n", code, tachyscope_last_error());
  tachyscope_run_free(run); /* before its engine; null is nothing to free */
  tachyscope_free(engine);
  return code;
}
