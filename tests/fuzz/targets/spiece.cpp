// Fuzzes a spiece.model, and encodes a text with the tokenizer that it makes.
#include "../fuzz_input.h"
#include "text/tokenizer.h"

using namespace tachy;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::expect_error_or_result([&] {
    const auto tokenizer = Tokenizer::from_spiece(fuzz::view(data, size), "fuzz");
    const TokenIds t =
        encode_padded(*tokenizer, "a red circle moves right 123 ｆｕｌｌ 红色的猫 é \xf0\x9f\x98\x80</s>");
    for (const int64_t id : t.ids)
      if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
    for (const int id : {-1, 0, 5, tokenizer->vocab_size(), 1 << 30}) (void)tokenizer->piece(id);
  });
  return 0;
}
