// Reads the end record, the zip64 end record if there is one, the central directory and the local headers,
// all through one bounds-checked little-endian accessor. Sizes come from the central directory, because local
// headers may omit them. The data's place comes from the lengths of name and extra field in the local header.
#include "weights/torch/zip_reader.h"

#include <cstring>

#include "base/error.h"
#include "weights/quote.h"

namespace tachy {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr uint32_t kCentralSignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr uint64_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kCentralBytes = 46, kLocalBytes = 30;
constexpr uint32_t kMax32 = 0xffffffffu;

class ZipBytes {
 public:
  ZipBytes(std::span<const std::byte> file, std::string_view path) : file_(file), path_(path) {}
  uint64_t size() const { return file_.size(); }
  std::string_view path() const { return path_; }

  void need(uint64_t at, uint64_t count, const char* what) const {
    check(at <= file_.size() && count <= file_.size() - at, ErrorCode::corrupt,
          "{}: byte {}: {} leaves the file of {} bytes (truncated download?)", path_, at, what, file_.size());
  }
  template <class T>
  T at(uint64_t offset, const char* what) const {
    need(offset, sizeof(T), what);
    T value;
    std::memcpy(&value, file_.data() + offset, sizeof(T));
    return value;
  }
  uint16_t u16(uint64_t offset, const char* what) const { return at<uint16_t>(offset, what); }
  uint32_t u32(uint64_t offset, const char* what) const { return at<uint32_t>(offset, what); }
  uint64_t u64(uint64_t offset, const char* what) const { return at<uint64_t>(offset, what); }
  std::string_view text(uint64_t offset, uint64_t count, const char* what) const {
    need(offset, count, what);
    return {reinterpret_cast<const char*>(file_.data()) + offset, static_cast<size_t>(count)};
  }

 private:
  std::span<const std::byte> file_;
  std::string_view path_;
};

struct Central {
  uint64_t offset = 0, bytes = 0, count = 0;
};

// The end record is the last one whose comment reaches exactly to the end of the file.
uint64_t find_end_record(const ZipBytes& file) {
  if (file.size() >= kEndBytes) {
    const uint64_t last = file.size() - kEndBytes, first = last > 0xffff ? last - 0xffff : 0;
    for (uint64_t at = last + 1; at-- > first;) {
      if (file.u32(at, "end record") == kEndSignature &&
          file.u16(at + 20, "end record") == file.size() - at - kEndBytes)
        return at;
    }
  }
  fail(ErrorCode::corrupt, "{}: no zip end record in {} bytes (truncated download?)", file.path(),
       file.size());
}

Central find_central(const ZipBytes& file) {
  const uint64_t end = find_end_record(file);
  Central central{file.u32(end + 16, "end record"), file.u32(end + 12, "end record"),
                  file.u16(end + 10, "end record")};
  if (end >= kLocatorBytes && file.u32(end - kLocatorBytes, "zip64 locator") == kLocator64Signature) {
    const uint64_t end64 = file.u64(end - kLocatorBytes + 8, "zip64 locator");
    file.need(end64, kEnd64Bytes, "zip64 end record");
    check(file.u32(end64, "zip64 end record") == kEnd64Signature, ErrorCode::corrupt,
          "{}: byte {}: expected a zip64 end record", file.path(), end64);
    central = {file.u64(end64 + 48, "zip64 end record"), file.u64(end64 + 40, "zip64 end record"),
               file.u64(end64 + 32, "zip64 end record")};
  }
  file.need(central.offset, central.bytes, "central directory");
  check(central.count <= central.bytes / kCentralBytes, ErrorCode::corrupt,
        "{}: byte {}: {} entries do not fit a central directory of {} bytes", file.path(), central.offset,
        central.count, central.bytes);
  return central;
}

// Extra field 1 contains, in this order, each of the three values that is 0xffffffff.
void apply_zip64(const ZipBytes& file, uint64_t extra, uint64_t extra_bytes, uint64_t& raw, uint64_t& stored,
                 uint64_t& local) {
  uint64_t at = extra;
  const uint64_t end = extra + extra_bytes;
  while (end - at >= 4) {
    const uint16_t id = file.u16(at, "extra field"), bytes = file.u16(at + 2, "extra field");
    at += 4;
    check(bytes <= end - at, ErrorCode::corrupt, "{}: byte {}: extra field leaves its record", file.path(),
          at - 4);
    if (id == 1) {
      uint64_t value_at = at;
      for (uint64_t* value : {&raw, &stored, &local}) {
        if (*value != kMax32) continue;
        check(at + bytes - value_at >= 8, ErrorCode::corrupt, "{}: byte {}: zip64 extra field is too short",
              file.path(), at - 4);
        *value = file.u64(value_at, "zip64 extra field");
        value_at += 8;
      }
      return;
    }
    at += bytes;
  }
}

}  // namespace

ZipDirectory read_zip_directory(std::span<const std::byte> bytes, std::string_view path) {
  const ZipBytes file(bytes, path);
  const Central central = find_central(file);
  const uint64_t central_end = central.offset + central.bytes;
  ZipDirectory out;
  uint64_t at = central.offset;
  for (uint64_t i = 0; i < central.count; ++i) {
    check(central_end - at >= kCentralBytes && file.u32(at, "directory record") == kCentralSignature,
          ErrorCode::corrupt, "{}: byte {}: expected directory record {} of {}", path, at, i + 1,
          central.count);
    const uint16_t flags = file.u16(at + 8, "directory record"),
                   method = file.u16(at + 10, "directory record");
    uint64_t stored = file.u32(at + 20, "directory record"), raw = file.u32(at + 24, "directory record");
    uint64_t local = file.u32(at + 42, "directory record");
    const uint64_t name_bytes = file.u16(at + 28, "directory record"),
                   extra = file.u16(at + 30, "directory record"),
                   comment = file.u16(at + 32, "directory record");
    check(central_end - at - kCentralBytes >= name_bytes + extra + comment, ErrorCode::corrupt,
          "{}: byte {}: directory record leaves the directory", path, at);
    const auto name = file.text(at + kCentralBytes, name_bytes, "entry name");
    apply_zip64(file, at + kCentralBytes + name_bytes, extra, raw, stored, local);

    check((flags & 1) == 0, ErrorCode::unsupported, "{}: entry {} is encrypted", path, in_quotes(name));
    check(method == 0, ErrorCode::unsupported,
          "{}: entry {} is compressed (method {}); torch.save stores entries as they are: unpack the zip and "
          "name the weights in it, or pack a torch checkpoint again with 'zip -0 -r'",
          path, in_quotes(name), method);
    check(raw == stored, ErrorCode::corrupt, "{}: entry {}: a stored entry of {} bytes in {} bytes", path,
          in_quotes(name), raw, stored);

    file.need(local, kLocalBytes, "local header");
    check(file.u32(local, "local header") == kLocalSignature, ErrorCode::corrupt,
          "{}: entry {}: no local header at byte {}", path, in_quotes(name), local);
    const uint64_t local_name = file.u16(local + 26, "local header"),
                   local_extra = file.u16(local + 28, "local header");
    check(file.text(local + kLocalBytes, local_name, "local name") == name, ErrorCode::corrupt,
          "{}: entry {}: the local header at byte {} has another name", path, in_quotes(name), local);
    const uint64_t data = local + kLocalBytes + local_name + local_extra;
    file.need(data, raw, "entry data");
    check(data + raw <= central.offset, ErrorCode::corrupt,
          "{}: entry {}: its {} bytes at {} run into the directory", path, in_quotes(name), raw, data);
    check(out.emplace(std::string(name), ZipEntry{data, raw}).second, ErrorCode::corrupt,
          "{}: entry {} appears twice", path, in_quotes(name));
    at += kCentralBytes + name_bytes + extra + comment;
  }
  return out;
}

}  // namespace tachy
