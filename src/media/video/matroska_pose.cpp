#include "media/video/matroska_pose.h"

#include <bit>
#include <cmath>
#include <fstream>
#include <numbers>
#include <optional>
#include <vector>

#include "media/byte_reader.h"
#include "media/picture/turn.h"

namespace tachy {
namespace {

constexpr uint64_t kSegment = 0x18538067, kTracks = 0x1654ae6b, kCluster = 0x1f43b675, kTrackEntry = 0xae,
                   kTrackType = 0x83, kVideoElement = 0xe0, kProjection = 0x7670, kType = 0x7671,
                   kYaw = 0x7673, kPitch = 0x7674, kRoll = 0x7675;
constexpr uint64_t kUnknown = UINT64_MAX;  // the size was unknown when the file was written
constexpr uint64_t kMostTracksBytes = 4 << 20;
constexpr int kMostElements = 1000;  // limit for the elements before the tracks

// The first bits of an element's name give its length and are part of the name. Those of a size are not.
struct Head {
  uint64_t id = 0, bytes = 0;
  size_t head_bytes = 0;
};

std::optional<Head> head_at(const Bytes& in, size_t at) {
  Head out;
  for (const bool size : {false, true}) {
    if (!in.has(at + out.head_bytes, 1)) return std::nullopt;
    const uint64_t first = in.get(at + out.head_bytes, 1);
    const int length = std::countl_zero(uint8_t(first)) + 1;
    if (length > (size ? 8 : 4) || !in.has(at + out.head_bytes, size_t(length))) return std::nullopt;
    const uint64_t value = in.get(at + out.head_bytes, length);
    const uint64_t mask = (uint64_t{1} << (7 * length)) - 1;
    if (size)
      out.bytes = (value & mask) == mask ? kUnknown : value & mask;
    else
      out.id = value;
    out.head_bytes += size_t(length);
  }
  return out;
}

// Calls `use` for the elements inside another one.
template <class Use>
void each_element(std::span<const uint8_t> data, const Use& use) {
  const Bytes in(data, "mkv", true);
  for (size_t at = 0; at < data.size();) {
    const auto head = head_at(in, at);
    if (!head || !in.has(at + head->head_bytes, head->bytes)) return;
    use(head->id, data.subspan(at + head->head_bytes, head->bytes));
    at += head->head_bytes + head->bytes;
  }
}

double real(std::span<const uint8_t> data) {
  const Bytes in(data, "mkv", true);
  if (data.size() == 4) return std::bit_cast<float>(uint32_t(in.get(0, 4)));
  return data.size() == 8 ? std::bit_cast<double>(in.get(0, 8)) : 0;
}

uint64_t whole(std::span<const uint8_t> data) {
  return data.empty() || data.size() > 8 ? 0 : Bytes(data, "mkv", true).get(0, int(data.size()));
}

struct Pose {
  bool video = false;
  uint64_t type = 0;
  double yaw = 0, pitch = 0, roll = 0;
};

Pose pose_of(std::span<const uint8_t> track) {
  Pose out;
  each_element(track, [&](uint64_t id, std::span<const uint8_t> data) {
    if (id == kTrackType) out.video = whole(data) == 1;
    if (id != kVideoElement) return;
    each_element(data, [&](uint64_t inner, std::span<const uint8_t> projection) {
      if (inner != kProjection) return;
      each_element(projection, [&](uint64_t what, std::span<const uint8_t> value) {
        if (what == kType) out.type = whole(value);
        if (what == kYaw) out.yaw = real(value);
        if (what == kPitch) out.pitch = real(value);
        if (what == kRoll) out.roll = real(value);
      });
    });
  });
  return out;
}

int orientation_of(const Pose& pose) {
  const bool mirrored = std::abs(pose.yaw) == 180;
  if (pose.type != 0 || pose.pitch != 0 || (pose.yaw != 0 && !mirrored)) return 1;
  if (!std::isfinite(pose.roll)) return 1;
  const double angle = pose.roll * std::numbers::pi / 180, c = std::cos(angle) * 65536,
               s = std::sin(angle) * 65536;
  const double sign = mirrored ? -1 : 1;  // it is mirrored first and then turned
  const int32_t matrix[9] = {
      int32_t(sign * c), int32_t(-s), 0, int32_t(sign * s), int32_t(c), 0, 0, 0, 1 << 30};
  return orientation_of_matrix(matrix);
}

// Returns the content of Tracks, or nothing if a picture comes first.
std::vector<uint8_t> read_tracks(std::ifstream& file) {
  uint64_t at = 0;
  for (int i = 0; i < kMostElements; ++i) {
    uint8_t begin[12] = {};
    file.clear();
    if (!file.seekg(int64_t(at)) ||
        (file.read(reinterpret_cast<char*>(begin), sizeof begin), file.gcount() < 2))
      return {};
    const auto head = head_at(Bytes({begin, size_t(file.gcount())}, "mkv", true), 0);
    if (!head || head->id == kCluster) return {};
    at += head->head_bytes;
    if (head->id == kSegment) continue;  // its elements follow
    if (head->bytes > uint64_t{1} << 62 || at > uint64_t{1} << 62) return {};
    if (head->id == kTracks) {
      if (head->bytes > kMostTracksBytes) return {};
      std::vector<uint8_t> out(head->bytes);
      file.clear(), file.seekg(int64_t(at));
      file.read(reinterpret_cast<char*>(out.data()), int64_t(out.size()));
      out.resize(size_t(file.gcount()));
      return out;
    }
    at += head->bytes;
  }
  return {};
}

}  // namespace

int matroska_orientation(const std::filesystem::path& path, int video_track) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return 1;
  int orientation = 1, seen = 0;
  each_element(read_tracks(file), [&](uint64_t id, std::span<const uint8_t> data) {
    if (id != kTrackEntry) return;
    const Pose pose = pose_of(data);
    if (pose.video && seen++ == video_track) orientation = orientation_of(pose);
  });
  return orientation;
}

}  // namespace tachy
