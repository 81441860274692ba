#include "media/sound/wav_input.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/error.h"

namespace tachy::av {
namespace {

constexpr int kBufferBytes = 1 << 16;

void put(std::vector<uint8_t>& to, std::string_view text) { to.insert(to.end(), text.begin(), text.end()); }
void put(std::vector<uint8_t>& to, uint64_t value) {
  for (int i = 0; i < 4; ++i) to.push_back(uint8_t(value >> (8 * i)));
}

}  // namespace

WavInput::WavInput(const std::filesystem::path& path, const WavFile& file)
    : file_(path, std::ios::binary), parts_(file.parts) {
  const uint64_t most = 0xffffffff, samples = std::min(file.bytes(), most), format = file.format.size();
  put(head_, "RIFF"), put(head_, std::min(most, samples + format + 20 + format % 2));
  put(head_, "WAVEfmt "), put(head_, format);
  head_.insert(head_.end(), file.format.begin(), file.format.end());
  if (format % 2) head_.push_back(0);
  put(head_, "data"), put(head_, samples);
  size_ = head_.size() + file.bytes();
  auto* buffer = static_cast<uint8_t*>(av_malloc(kBufferBytes));
  if (buffer != nullptr) context_ = avio_alloc_context(buffer, kBufferBytes, 0, this, read, nullptr, seek);
  if (context_ == nullptr) av_free(buffer);
  check(context_ != nullptr, ErrorCode::out_of_memory, "media: out of memory in FFmpeg");
}

WavInput::~WavInput() {
  av_freep(&context_->buffer);
  avio_context_free(&context_);
}

int WavInput::read(void* self, uint8_t* to, int count) {
  return static_cast<WavInput*>(self)->read_some(to, uint64_t(std::max(count, 0)));
}

int64_t WavInput::seek(void* self, int64_t to, int whence) {
  auto& input = *static_cast<WavInput*>(self);
  if (whence & AVSEEK_SIZE) return int64_t(input.size_);
  const int64_t base = whence == SEEK_CUR   ? int64_t(input.at_)
                       : whence == SEEK_END ? int64_t(input.size_)
                                            : 0;
  if (base + to < 0) return AVERROR(EINVAL);
  input.at_ = uint64_t(base + to);
  return base + to;
}

// Reads no further than the end of one piece, beginning at its start or inside it.
int WavInput::read_some(uint8_t* to, uint64_t count) {
  uint64_t within = at_;
  if (within < head_.size()) {
    count = std::min(count, head_.size() - within);
    std::copy_n(head_.begin() + int64_t(within), count, to);
    at_ += count;
    return int(count);
  }
  within -= head_.size();
  for (const WavFile::Part& part : parts_) {
    if (within >= part.bytes) {
      within -= part.bytes;
      continue;
    }
    file_.clear();
    file_.seekg(int64_t(part.at + within));
    file_.read(reinterpret_cast<char*>(to), int64_t(std::min(count, part.bytes - within)));
    const auto got = file_.gcount();
    if (got <= 0) return AVERROR(EIO);
    at_ += uint64_t(got);
    return int(got);
  }
  return AVERROR_EOF;
}

}  // namespace tachy::av
