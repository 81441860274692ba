// Fuzzes a .safetensors file whose weights are quantised: if it opens, all values are made, whatever its
// scales and JSON say.
#include "../fuzz_input.h"
#include "weights/names/rename.h"
#include "weights/quantized/quantized_source.h"
#include "weights/safetensors.h"
#include "weights/scope.h"

using namespace tachy;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::MemoryFile file;
  file.set(fuzz::view(data, size));
  fuzz::expect_error_or_result([] {
    const auto source = dequantized(open_safetensors(file.path()));
    const Scope scope(source);
    for (const auto& entry : source->entries()) {
      const Tensor t = scope.tensor(entry.name, std::span<const int64_t>(entry.dims));
      fuzz::touch(t.data, static_cast<uint64_t>(t.bytes()));
    }
    for (const auto rename : {dit_source, umt5_source, vae_source})
      fuzz::expect_error_or_result([&] { rename(source); });
  });
  return 0;
}
