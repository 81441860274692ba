// Writes tensors that are in memory to a file at once.
#include "base/error.h"
#include "weights/file_layout.h"
#include "weights/output_file.h"
#include "weights/quote.h"
#include "weights/safetensors.h"

namespace tachy {

void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<StoredTensor> stored;
  for (const auto& [name, tensor] : tensors) {
    require(tensor.defined() && tensor.contiguous() && tensor.device == Device::cpu,
            "write_safetensors: tensor {}: expected a contiguous CPU tensor", in_quotes(name));
    const auto shape = tensor.shape();
    stored.push_back({.name = name, .dims = {shape.begin(), shape.end()}, .dtype = tensor.dtype});
  }
  const FileLayout layout = safetensors_layout(stored, metadata);
  OutputFile out(path);
  out.write_at(0, layout.header.data(), layout.header.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    out.write_at(layout.begins[i], tensors[i].tensor.data, static_cast<uint64_t>(tensors[i].tensor.bytes()));
  out.commit(layout.bytes);
}

}  // namespace tachy
