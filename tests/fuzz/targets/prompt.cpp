// Fuzzes a prompt: cleaning, then both tokenizers. The tokenizers must accept what cleaning returns.
#include "../fuzz_input.h"
#include "text/clean_prompt.h"
#include "text/tokenizer.h"

using namespace tachy;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto json = Tokenizer::open(std::string(TACHY_SOURCE_DIR) +
                                           "/tests/golden/pipeline/model/tokenizer/tokenizer.json");
  static const auto spiece =
      Tokenizer::open(std::string(TACHY_SOURCE_DIR) + "/models/sprites/tokenizer/spiece.model");
  CleanResult clean;
  try {
    clean = clean_prompt_checked(fuzz::view(data, size));
  } catch (const Error& e) {
    if (e.code() != ErrorCode::invalid_argument) std::abort();
    return 0;
  }
  for (const Tokenizer* tokenizer : {json.get(), spiece.get()}) {
    const TokenIds t = encode_padded(*tokenizer, clean.text);  // an Error here is a finding
    if (t.ids.size() != 512 || t.length() < 1 ||
        t.ids[static_cast<size_t>(t.length()) - 1] != tokenizer->eos_id())
      std::abort();
  }
  return 0;
}
