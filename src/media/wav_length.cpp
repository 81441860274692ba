#include "media/wav_length.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>

#include "media/byte_reader.h"

namespace tachy {
namespace {

// Nobody records 1.9 GB into a file whose size is counted with 32 bits; what writes such a size does not know it.
constexpr uint64_t kLeastPlaceholder = 1'900'000'000;
constexpr int kMostChunks = 10'000;

struct Chunk {
  char name[4] = {};
  uint64_t bytes = 0;
};

std::optional<Chunk> chunk_at(std::ifstream& in, uint64_t at) {
  uint8_t head[8] = {};
  in.clear();
  if (!in.seekg(int64_t(at)) || !in.read(reinterpret_cast<char*>(head), 8)) return std::nullopt;
  Chunk out;
  std::memcpy(out.name, head, 4);
  out.bytes = Bytes(head, "wav", false).get(4, 4);
  return out;
}

// What lies from here to the end of the file: whole chunks with readable names and nothing else, and how many of them are samples.
struct Rest {
  bool chunks = false;
  int data = 0;
};

Rest rest_of(std::ifstream& in, uint64_t at, uint64_t size) {
  Rest out;
  for (int i = 0; at + 8 <= size && i < kMostChunks; ++i) {
    const auto chunk = chunk_at(in, at);
    const auto readable = [](char c) { return std::isprint(static_cast<unsigned char>(c)) != 0; };
    if (!chunk || !std::all_of(chunk->name, chunk->name + 4, readable)) return {};
    out.data += std::memcmp(chunk->name, "data", 4) == 0;
    at += 8 + chunk->bytes + (at + 8 + chunk->bytes < size ? chunk->bytes % 2 : 0);
  }
  out.chunks = at == size;
  return out;
}

}  // namespace

std::optional<WavLength> wav_length(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  char head[12] = {};
  std::error_code ec;
  const uint64_t size = std::filesystem::file_size(path, ec);
  if (ec || !in.read(head, 12)) return std::nullopt;
  if (std::memcmp(head, "RIFF", 4) != 0 || std::memcmp(head + 8, "WAVE", 4) != 0) return std::nullopt;
  uint64_t at = 12;
  for (int i = 0; i < kMostChunks; ++i) {
    const auto chunk = chunk_at(in, at);
    if (!chunk) return std::nullopt;
    at += 8;
    if (std::memcmp(chunk->name, "data", 4) == 0) {
      WavLength out{.told = chunk->bytes, .there = size - at};
      const uint64_t end = at + out.told + (out.told % 2 && at + out.told < size ? 1 : 0);
      const Rest rest = end <= size ? rest_of(in, end, size) : Rest{};
      out.empty = out.there == 0 || (out.told == 0 && rest.chunks);
      if (rest.chunks) out.parts += rest.data;
      out.placeholder =
          !out.empty && (out.told == 0 || (out.told > out.there && out.told >= kLeastPlaceholder));
      if (end < size && !rest.chunks && !out.placeholder) out.behind = size - end;
      return out;
    }
    at += chunk->bytes + chunk->bytes % 2;
  }
  return std::nullopt;
}

}  // namespace tachy
