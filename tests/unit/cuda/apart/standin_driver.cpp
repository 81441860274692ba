// Stands in for libcuda.so.1. STANDIN_DRIVER_VERSION is what it says of itself, STANDIN_GPUS the capabilities of its GPUs ("90,80");
// "broken" makes cuInit fail.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

std::vector<int> gpus() {
  std::vector<int> all;
  const char* at = std::getenv("STANDIN_GPUS");
  while (at && *at) {
    char* end = nullptr;
    all.push_back(static_cast<int>(std::strtol(at, &end, 10)));
    at = *end ? end + 1 : end;
  }
  return all;
}

}  // namespace

extern "C" {
int cuInit(unsigned) {
  const char* text = std::getenv("STANDIN_GPUS");
  return text && std::strcmp(text, "broken") == 0 ? 999 : 0;
}
int cuDriverGetVersion(int* version) {
  const char* text = std::getenv("STANDIN_DRIVER_VERSION");
  *version = text ? std::atoi(text) : 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = static_cast<int>(gpus().size());
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int capability = gpus()[static_cast<size_t>(device)];
  *value = attribute == 75 ? capability / 10 : capability % 10;
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "the stand-in is broken";
  return 0;
}
}
