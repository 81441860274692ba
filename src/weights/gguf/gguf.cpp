#include "weights/gguf/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tensor/tensor.h"
#include "weights/gguf/gguf_parts.h"
#include "weights/quote.h"
#include "weights/tensor_range.h"

namespace tachy {
namespace {

constexpr int kMostBlockValues = 256;

// A tensor of quantised blocks. If its shape was restored, rows need not begin where blocks begin.
class BlockTensor final : public DerivedTensor {
 public:
  BlockTensor(const GgufTensor& tensor, std::shared_ptr<const MappedFile> file)
      : type_(*tensor.type), data_(tensor.data), blocks_(blocks_in(tensor)), file_(std::move(file)) {}

  std::string_view encoding() const override { return type_.name; }

  void decode(int64_t first, const Tensor& rows) const override {
    int64_t left = rows.numel();
    if (left == 0) return;
    int64_t at = first * (left / rows.dim(0));
    const int64_t block = type_.block_values;
    check(rows.dtype == DType::f32 && rows.contiguous() && first >= 0 && left <= blocks_ * block - at,
          ErrorCode::internal, "{}: rows {} of a tensor of {} blocks", type_.name, first, blocks_);
    auto* to = static_cast<float*>(rows.data);
    while (left > 0) {
      const int64_t skipped = at % block;
      int64_t n = left / block * block;
      if (skipped == 0 && n > 0) {
        type_.decode(block_at(at / block), n / block, to);
      } else {
        float one[kMostBlockValues];
        n = std::min(left, block - skipped);
        type_.decode(block_at(at / block), 1, one);
        std::memcpy(to, one + skipped, static_cast<size_t>(n) * sizeof(float));
      }
      at += n, to += n, left -= n;
    }
  }

  std::optional<StoredValues> stored(int64_t rows, int64_t width) const override {
    const int64_t a_row = width / type_.block_values;
    if (width % type_.block_values != 0 || rows * a_row != blocks_) return std::nullopt;
    return StoredValues{
        .bytes = Tensor(const_cast<std::byte*>(data_), DType::u8, {rows, a_row * type_.block_bytes}),
        .type = &type_};
  }

 private:
  static int64_t blocks_in(const GgufTensor& tensor) {
    return static_cast<int64_t>(tensor.bytes) / tensor.type->block_bytes;
  }
  const std::byte* block_at(int64_t block) const { return data_ + block * type_.block_bytes; }

  const GgufType& type_;
  const std::byte* data_;
  int64_t blocks_;
  std::shared_ptr<const MappedFile> file_;
};

// Returns the shape that a converter noted before it made the tensor fit the format. The first part of a
// split file has this note.
std::vector<int64_t> original_shape(const GgufHeader& first, const GgufHeader& own, const GgufTensor& tensor,
                                    const std::string& path) {
  const std::string key = "comfy.gguf.orig_shape." + tensor.name;
  auto noted = own.integers(key);
  if (!noted) noted = first.integers(key);
  if (!noted) return tensor.dims;
  const auto same = checked_bytes(tensor.dims, DType::u8);  // these count elements
  check(!noted->empty() && noted->size() <= kMaxDims && checked_bytes(*noted, DType::u8) == same,
        ErrorCode::corrupt, "{}: tensor {}: its shape {} cannot be that of comfy.gguf.orig_shape, {}", path,
        in_quotes(tensor.name), shape_string(tensor.dims), shape_string(*noted));
  return *noted;
}

TensorSource::Entry make_entry(const GgufHeader& first, const GgufPart& part, uint32_t number,
                               const GgufTensor& tensor) {
  TensorSource::Entry entry{.name = tensor.name,
                            .name_in_file = tensor.name,
                            .dtype = tensor.type->plain.value_or(DType::f32),
                            .dims = original_shape(first, part.header, tensor, part.file->path()),
                            .data = tensor.data,
                            .bytes = tensor.bytes,
                            .file = number};
  if (tensor.type->plain) return entry;
  entry.data = nullptr;
  if (tensor.type->decode)
    entry.derived = std::make_shared<BlockTensor>(tensor, part.file);
  else
    entry.unusable = fmt::format("its type {} is not read", tensor.type->name);
  return entry;
}

}  // namespace

bool is_gguf(const MappedFile& file) { return file.size() >= 4 && std::memcmp(file.data(), "GGUF", 4) == 0; }

std::shared_ptr<TensorSource> open_gguf(const std::filesystem::path& path, FileAccess access) {
  const std::vector<GgufPart> parts = open_gguf_parts(path, access);
  std::vector<TensorSource::Entry> entries;
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::map<std::string, std::string> metadata;  // if several parts have a key, the first part's value
  for (const GgufPart& part : parts) {
    const auto number = static_cast<uint32_t>(files.size());
    for (const GgufTensor& tensor : part.header.tensors())
      entries.push_back(make_entry(parts[0].header, part, number, tensor));
    for (const auto& [key, value] : part.header.values())
      if (auto text = GgufHeader::shown(value)) metadata.emplace(key, std::move(*text));
    files.push_back(part.file);
  }
  return std::make_shared<TensorSource>(std::move(entries), std::move(files), std::move(metadata));
}

std::optional<Vocabulary> gguf_vocabulary(const GgufHeader& header, std::string_view path) {
  const auto model = header.text("tokenizer.ggml.model");
  if (!model) return std::nullopt;
  check(*model == "t5", ErrorCode::unsupported,
        "{}: tokenizer.ggml.model: expected \"t5\" (SentencePiece unigram), got {}", path, in_quotes(*model));
  Vocabulary out;
  out.pieces = header.texts("tokenizer.ggml.tokens").value_or(out.pieces);
  out.scores = header.floats("tokenizer.ggml.scores").value_or(out.scores);
  out.types = header.integers("tokenizer.ggml.token_type").value_or(out.types);
  check(
      !out.pieces.empty() && out.pieces.size() == out.scores.size() && out.pieces.size() == out.types.size(),
      ErrorCode::corrupt, "{}: tokenizer.ggml: {} tokens, {} scores and {} types", path, out.pieces.size(),
      out.scores.size(), out.types.size());
  out.charsmap = header.bytes("tokenizer.ggml.precompiled_charsmap").value_or(out.charsmap);
  out.add_space_prefix = header.flag("tokenizer.ggml.add_space_prefix").value_or(true);
  out.remove_extra_whitespaces = header.flag("tokenizer.ggml.remove_extra_whitespaces").value_or(true);
  out.eos_id = header.integer("tokenizer.ggml.eos_token_id");
  out.pad_id = header.integer("tokenizer.ggml.padding_token_id");
  return out;
}

std::optional<Vocabulary> gguf_vocabulary(const TensorSource& source) {
  if (source.files().empty() || !is_gguf(*source.files().front())) return std::nullopt;
  const MappedFile& file = *source.files().front();
  return gguf_vocabulary(GgufHeader(file.bytes(), file.path()), file.path());
}

}  // namespace tachy
