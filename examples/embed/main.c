/* Tachyscope inside a C program: counts the frames and prints the mean brightness of each.
 *   example_embed_c MODEL_FOLDER "a prompt" */

#include <stdio.h>

#include "api/tachyscope_c.h"

static int on_frame(void* user, const uint8_t* rgb, int32_t width, int32_t height, int64_t index) {
  long long sum = 0;
  const long long count = 3LL * width * height;
  for (long long i = 0; i < count; ++i) sum += rgb[i];
  printf("frame %lld: mean %.1f\n", (long long)index, (double)sum / (double)count);
  ++*(int*)user;
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL_FOLDER PROMPT\n", argv[0]);
    return 2;
  }
  tachyscope_engine* engine = NULL;
  int code = tachyscope_load(argv[1], 0, &engine);
  if (code == 0) {
    int frames = 0;
    tachyscope_request request = {0};
    request.prompt = argv[2];
    request.frames = 5;
    request.steps = 2;
    request.guidance = request.shift = -1;
    code = tachyscope_generate(engine, &request, on_frame, NULL, &frames);
    printf("%d frames\n", frames);
  }
  if (code) fprintf(stderr, "error %d: %s\n", code, tachyscope_last_error());
  tachyscope_free(engine);
  return code;
}
