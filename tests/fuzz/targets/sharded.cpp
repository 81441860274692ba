// Fuzzes an index of shards and one shard: the input is a 16-bit length, the index's JSON, then the bytes of
// "a.safetensors". A second shard, "b.safetensors", is sound.
#include <fstream>

#include "../fuzz_input.h"
#include "weights/safetensors.h"

using namespace tachy;

namespace {

struct Files {
  fuzz::Folder folder;
  fuzz::MemoryFile index, shard;
  Files() {
    fs_link(index.path(), "m.safetensors.index.json");
    fs_link(shard.path(), "a.safetensors");
    float values[6] = {};
    write_safetensors(folder.path() / "b.safetensors", {{"w", Tensor(values, DType::f32, {2, 3})}});
  }
  void fs_link(const std::string& to, const char* name) {
    std::filesystem::create_symlink(to, folder.path() / name);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Files files;
  if (size < 2) return 0;
  const size_t length = std::min<size_t>(data[0] | data[1] << 8, size - 2);
  files.index.set(fuzz::view(data + 2, length));
  files.shard.set(fuzz::view(data + 2 + length, size - 2 - length));
  fuzz::expect_error_or_result([] {
    const auto source = open_sharded(files.folder.path() / "m.safetensors.index.json");
    for (const auto& entry : source->entries()) {
      if (entry.unusable.empty()) fuzz::touch(entry.data, entry.bytes);
      (void)source->file_of(entry);
    }
  });
  return 0;
}
