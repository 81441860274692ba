#include "catalog/open_tokenizer.h"

#include "base/error.h"
#include "text/tokenizer.h"
#include "weights/gguf/gguf.h"
#include "weights/quote.h"

namespace tachy {

constexpr uint64_t kMostBytes = 256u << 20;

std::unique_ptr<Tokenizer> read_carried_tokenizer(const TensorSource& source) {
  const TensorSource::Entry* carried = carried_tokenizer(source);
  if (!carried)
    if (const auto vocabulary = gguf_vocabulary(source))
      return Tokenizer::from_vocabulary(*vocabulary, source.files_text() + ": tokenizer.ggml");
  check(carried != nullptr, ErrorCode::not_found, "`tokenizer`: {} has none", source.files_text());
  const TensorSource::Entry& entry = *carried;
  const std::string name = fmt::format("{}: tensor {}", source.file_of(entry), in_quotes(entry.name_in_file));
  check(entry.unusable.empty(), ErrorCode::unsupported, "{}: {}", name, entry.unusable);
  check(entry.dtype == DType::u8 && entry.dims.size() == 1 && !entry.derived && entry.bytes <= kMostBytes,
        ErrorCode::corrupt, "{}: expected the bytes of a spiece.model (at most {}), got {} {}", name,
        kMostBytes, dtype_name(entry.dtype), shape_string(entry.dims));
  return Tokenizer::from_spiece({static_cast<const char*>(entry.data), static_cast<size_t>(entry.bytes)},
                                name);
}

std::unique_ptr<Tokenizer> open_tokenizer(const ModelBundle& model) {
  if (!model.files.tokenizer.empty()) return Tokenizer::open(model.files.tokenizer);
  check(model.text_encoder != nullptr, ErrorCode::unsupported, "`prompt`: {}: this model reads no text",
        model.files.root.string());
  return read_carried_tokenizer(*model.text_encoder);
}

}  // namespace tachy
