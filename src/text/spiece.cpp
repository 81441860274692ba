// spiece.model through libsentencepiece. Unknown characters end as one unknown id a run, whether the library
// reports them as unknown or spells them in byte pieces: Wan's text encoder was trained with the former.
#include "text/spiece.h"

#include <sentencepiece_processor.h>

#include "base/error.h"
#include "text/limits.h"

namespace tachy::text {
namespace {

class SpieceTokenizer final : public Tokenizer {
 public:
  SpieceTokenizer(std::string_view bytes, std::string_view name) {
    check_spiece(bytes, name);
    const auto status = processor_.LoadFromSerializedProto({bytes.data(), bytes.size()});
    check(status.ok(), ErrorCode::corrupt, "{}: {}", name, status.error_message());
    size_ = processor_.GetPieceSize();
    unk_ = processor_.unk_id();
    eos_ = processor_.eos_id();
    pad_ = processor_.pad_id();
    check(eos_ >= 0 && eos_ < size_, ErrorCode::unsupported, "{}: the model has no end piece", name);
    check(pad_ >= 0 && pad_ < size_, ErrorCode::unsupported, "{}: the model has no padding piece", name);
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    require_text(text);
    std::vector<int> raw;
    const auto status = processor_.Encode({text.data(), text.size()}, &raw);
    check(status.ok(), ErrorCode::internal, "sentencepiece: {}", status.error_message());
    std::vector<int32_t> ids;
    ids.reserve(raw.size());
    for (int id : raw) {
      const bool unknown = id == unk_ || processor_.IsByte(id);
      if (unknown && !ids.empty() && ids.back() == unk_) continue;
      ids.push_back(unknown ? unk_ : id);
    }
    return ids;
  }

  int pad_id() const override { return pad_; }
  int eos_id() const override { return eos_; }
  int unk_id() const override { return unk_; }
  int vocab_size() const override { return size_; }
  std::string piece(int id) const override {
    return id >= 0 && id < size_ ? processor_.IdToPiece(id) : std::string();
  }
  std::string_view source() const override { return "spiece.model"; }

 private:
  sentencepiece::SentencePieceProcessor processor_;
  int size_ = 0, unk_ = 0, eos_ = 0, pad_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> read_spiece_tokenizer(std::string_view bytes, std::string_view name) {
  try {
    return std::make_unique<SpieceTokenizer>(bytes, name);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(ErrorCode::corrupt, "{}: libsentencepiece refuses the file: {}", name, error.what());
  }
}

}  // namespace tachy::text
