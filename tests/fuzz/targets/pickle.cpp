// Fuzzes the pickle inside a .pth by itself, and so reaches deeper than mutations of a whole zip do.
#include "../fuzz_input.h"
#include "weights/torch/pickle_reader.h"

using namespace tachy;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::expect_error_or_result([&] {
    const Pickle pickle = read_pickle({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    for (const PickleValue& value : pickle.values)
      for (const PickleIndex item : value.items)
        if (item >= pickle.values.size()) std::abort();
    if (pickle.root >= pickle.values.size()) std::abort();
  });
  return 0;
}
