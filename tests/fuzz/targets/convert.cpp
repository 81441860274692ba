// Fuzzes the conversion of a transformer's file into each form: it is planned, and carried out if the output
// is small. Whatever the bytes are, an error leaves nothing behind. The first byte of the input chooses the
// form.
#include "convert/convert.h"

#include "../fuzz_input.h"
#include "convert/convert_plan.h"

using namespace tachy;

namespace {

constexpr const char* kForms[] = {"single", "fp8", "int8", "gguf:Q8_0", "gguf:Q4_1", "gguf:F16", "diffusers"};
constexpr uint64_t kMostBytes = 1 << 20;

uint64_t planned_bytes(const std::string& in, const ConvertForm& form) {
  return (form.kind == ConvertForm::Kind::diffusers ? plan_folder(in, {}, 1 << 30) : plan_file(in, form, ""))
      .bytes();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::MemoryFile file;
  static const fuzz::Folder folder;
  if (size < 1) return 0;
  const std::string to = kForms[data[0] % std::size(kForms)];
  const ConvertForm form = parse_form(to);
  const char* ending = form.type ? ".gguf" : form.kind == ConvertForm::Kind::diffusers ? "" : ".safetensors";
  const auto out = folder.path() / ("out" + std::string(ending));
  file.set(fuzz::view(data + 1, size - 1));
  bool written = false;
  fuzz::expect_error_or_result([&] {
    if (planned_bytes(file.path(), form) > kMostBytes) return;
    convert_model(file.path(), out, {}, {.to = to, .threads = 1});
    written = true;
  });
  if (written && !fuzz::fs::exists(out)) std::abort();
  fuzz::fs::remove_all(out);
  if (!fuzz::fs::is_empty(folder.path())) std::abort();
  return 0;
}
