// Fuzzes a .gguf file: its header, its tensors of any type, and the tokenizer among its keys.
#include "weights/gguf/gguf.h"

#include "../fuzz_input.h"
#include "text/tokenizer.h"
#include "weights/names/rename.h"
#include "weights/scope.h"

using namespace tachy;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::MemoryFile file;
  file.set(fuzz::view(data, size));
  fuzz::expect_error_or_result([] {
    const auto source = open_gguf(file.path());
    const Scope scope(source);
    for (const auto& entry : source->entries()) {
      if (!entry.unusable.empty()) continue;
      fuzz::touch(entry.data, entry.data ? entry.bytes : 0);
      const Tensor t = scope.tensor(entry.name, std::span<const int64_t>(entry.dims));
      fuzz::touch(t.data, static_cast<uint64_t>(t.bytes()));
    }
    for (const auto rename : {dit_source, umt5_source, vae_source})
      fuzz::expect_error_or_result([&] { rename(source); });
    fuzz::expect_error_or_result([&] {
      if (const auto vocabulary = gguf_vocabulary(*source))
        Tokenizer::from_vocabulary(*vocabulary, "fuzz")->encode("a red circle");
    });
  });
  return 0;
}
