#include "media/sound/wav_file.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string>

#include "media/byte_reader.h"

namespace tachy {
namespace {

constexpr uint64_t kMostFormatBytes = 4096;
constexpr int kMostChunks = 10'000;

struct WavChunk {
  std::string name;
  uint64_t at = 0, bytes = 0;  // of the content
};

class WavWalk {
 public:
  explicit WavWalk(const std::filesystem::path& path) : in_(path, std::ios::binary) {
    std::error_code ec;
    size_ = std::filesystem::file_size(path, ec);
    if (ec) size_ = 0;
  }

  std::optional<WavFile> read() {
    const std::vector<uint8_t> head = bytes_at(0, 40);
    const bool riff = starts_with(head, 0, "RIFF"),
               large = starts_with(head, 0, "RF64") || starts_with(head, 0, "BW64");
    w64_ = starts_with(head, 0, "riff") && starts_with(head, 24, "wave");
    if (!w64_ && !((riff || large) && starts_with(head, 8, "WAVE"))) return std::nullopt;
    uint64_t at = w64_ ? 40 : 12;
    for (int i = 0; i < kMostChunks; ++i) {
      const auto chunk = chunk_at(at);
      if (!chunk) break;
      if (!take(*chunk)) return finished(size_);
      at = behind(*chunk);
    }
    return finished(at);
  }

 private:
  std::vector<uint8_t> bytes_at(uint64_t at, uint64_t count) {
    std::vector<uint8_t> out(count);
    in_.clear();
    if (!in_.seekg(int64_t(at))) return {};
    in_.read(reinterpret_cast<char*>(out.data()), int64_t(count));
    out.resize(size_t(std::max<std::streamsize>(0, in_.gcount())));
    return out;
  }

  // Returns nothing if there is no name of printable letters.
  std::optional<WavChunk> chunk_at(uint64_t at) {
    const size_t head_bytes = w64_ ? 24 : 8;
    const std::vector<uint8_t> head = bytes_at(at, head_bytes);
    if (head.size() < head_bytes) return std::nullopt;
    WavChunk out{std::string(text_of(head).substr(0, 4)), at + head_bytes, 0};
    if (!std::all_of(out.name.begin(), out.name.end(), [](unsigned char c) { return std::isprint(c) != 0; }))
      return std::nullopt;
    const Bytes in(head, "wav", false);
    out.bytes = w64_ ? in.get(16, 8) : in.get(4, 4);
    if (w64_) out.bytes = out.bytes < 24 ? 0 : out.bytes - 24;
    return out;
  }

  // Returns where the next chunk begins. Some programs omit the padding.
  uint64_t behind(const WavChunk& chunk) {
    const uint64_t end = chunk.bytes > size_ ? size_ : chunk.at + chunk.bytes, align = w64_ ? 8 : 2;
    const uint64_t padded = (end + align - 1) / align * align;
    return padded != end && (padded > size_ || (!chunk_at(padded) && chunk_at(end))) ? end : padded;
  }

  // Says whether only whole chunks follow up to the end of the file.
  bool only_chunks(uint64_t at) {
    for (int i = 0; i < kMostChunks && at < size_; ++i) {
      const auto chunk = chunk_at(at);
      if (!chunk || chunk->bytes > size_ - chunk->at) return false;
      at = behind(*chunk);
    }
    return at == size_;
  }

  // Returns false if the chunk's samples reach to the end of the file.
  bool take(const WavChunk& chunk) {
    if (chunk.name == "ds64") {
      const std::vector<uint8_t> sizes = bytes_at(chunk.at, 16);
      if (sizes.size() == 16) large_bytes_ = Bytes(sizes, "wav", false).get(8, 8);
    }
    if (chunk.name == "fmt " && chunk.bytes <= kMostFormatBytes)
      out_.format = bytes_at(chunk.at, chunk.bytes);
    if (chunk.name != "data") return true;
    const uint64_t told = large_bytes_ && chunk.bytes == 0xffffffff ? *large_bytes_ : chunk.bytes;
    const uint64_t there = size_ - chunk.at;
    if (there == 0 || (chunk.bytes == 0 && only_chunks(behind(chunk)))) return true;  // no samples
    const bool all = told == 0 || told > there;
    out_.parts.push_back({chunk.at, all ? there : told});
    if (told > there && told < kLeastPlaceholder) out_.told = told;
    // The chunk's own size does not tell what follows.
    if (large_bytes_ && !all) return chunk.bytes != 0xffffffff;
    return !all;
  }

  std::optional<WavFile> finished(uint64_t end) {
    if (out_.format.size() < 14) return std::nullopt;
    out_.behind = size_ > end ? size_ - end : 0;
    return std::move(out_);
  }

  std::ifstream in_;
  uint64_t size_ = 0;
  bool w64_ = false;
  std::optional<uint64_t> large_bytes_;  // for RF64's samples
  WavFile out_;
};

}  // namespace

uint64_t WavFile::bytes() const {
  uint64_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

std::optional<WavFile> find_wav(const std::filesystem::path& path) { return WavWalk(path).read(); }

}  // namespace tachy
