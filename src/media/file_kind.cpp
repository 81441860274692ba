#include "media/file_kind.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string_view>

#include "media/byte_reader.h"

namespace tachy {
namespace {

constexpr std::string_view kToPicture = "convert it to PNG or JPEG", kToSound = "convert it to wav or mp3",
                           kToVideo = "convert it to mp4", kDrawn = "render it to PNG",
                           kExport = "export it as PNG or JPEG", kAgain = "download the file itself",
                           kUnpack = "unpack it";

// Bytes at a place in the file, and the kind that they mean. The first row that matches counts.
struct Mark {
  size_t at;
  std::string_view bytes, kind, way_out;
  // The purposes for which such a file can be read. If it cannot be opened for them, it is damaged.
  unsigned read_as = 0;
};
constexpr unsigned kPicture = 1u << unsigned(Wanted::picture), kSound = 1u << unsigned(Wanted::sound),
                   kVideo = 1u << unsigned(Wanted::video);
constexpr Mark kMarks[] = {
    {0, "\x89PNG\r\n\x1a\n", "a PNG picture", "", kPicture},
    {0, "\xff\xd8\xff", "a JPEG picture", "", kPicture},
    {0, "GIF8", "a GIF", "", kPicture | kVideo},
    {8, "WEBP", "a WebP picture", "", kPicture},
    {4, "ftypheic", "a HEIC photo", kToPicture},
    {4, "ftypheix", "a HEIC photo", kToPicture},
    {4, "ftypheim", "a HEIC photo", kToPicture},
    {4, "ftypheis", "a HEIC photo", kToPicture},
    {4, "ftyphevc", "a HEIC sequence", kToPicture},
    {4, "ftyphevx", "a HEIC sequence", kToPicture},
    {4, "ftypavif", "an AVIF picture", kToPicture},
    {4, "ftypavis", "an animated AVIF", kToPicture},
    {4, "ftypmif1", "a HEIF picture (HEIC or AVIF)", kToPicture},
    {4, "ftypmsf1", "a HEIF sequence (HEIC or AVIF)", kToPicture},
    {4, "ftypcrx ", "a raw photo (CR3)", kExport},
    {4, "ftypM4A ", "a sound (m4a)", kToSound, kSound},
    {4, "ftyp", "an mp4 or mov video", kToVideo, kSound | kVideo},
    {4, "JXL \r\n\x87\n", "a JPEG XL picture", kToPicture},
    {4, "jP  \r\n\x87\n", "a JPEG 2000 picture", kToPicture},
    {0, "\xff\x0a", "a JPEG XL picture", kToPicture},
    {0, "\xff\x4f\xff\x51", "a JPEG 2000 picture", kToPicture},
    {8, "CR\x02", "a raw photo (CR2)", kExport},
    {0, "IIRO", "a raw photo (ORF)", kExport},
    {0, "IIU\0", "a raw photo (RW2)", kExport},
    {0, "FUJIFILMCCD-RAW", "a raw photo (RAF)", kExport},
    {0, "8BPS", "a Photoshop picture (PSD)", kExport},
    {0, "BM", "a BMP picture", kToPicture},
    {0, std::string_view("\0\0\1\0", 4), "an icon (ICO)", kToPicture},
    {0, "v/1\x01", "an OpenEXR picture", kToPicture},
    {0, "#?RADIANCE", "a Radiance HDR picture", kToPicture},
    {0, "qoif", "a QOI picture", kToPicture},
    {0, "%PDF-", "a PDF document", kDrawn},
    {0, "version https://git-lfs", "a Git LFS pointer, which only names the file",
     "fetch it with git lfs pull"},
    {0, "\x1a\x45\xdf\xa3", "an mkv or webm video", kToVideo, kSound | kVideo},
    {0, "PK\3\4", "a zip archive", kUnpack},
    {0, "\x1f\x8b", "a gzip archive", kUnpack},
    {0, "#!AMR", "an AMR recording", kToSound},
    {0, "\x30\x26\xb2\x75\x8e\x66\xcf\x11", "a Windows Media file (wma or wmv)", ""},
    {0, "MThd", "a MIDI file, which holds notes and no sound", kToSound},
    {0, "DSD ", "a DSD recording", kToSound},
    {0, "MAC ", "a Monkey's Audio file", kToSound},
    {0, "wvpk", "a WavPack file", kToSound},
    {8, "WAVE", "a wav sound", "", kSound},
    {0, "OggS", "an ogg sound", "", kSound},
    {0, "fLaC", "a flac sound", "", kSound},
    {0, "ID3", "an mp3 sound", "", kSound},
    {8, "AVI ", "an avi video", kToVideo, kSound | kVideo},
    {0, "FLV", "a Flash video", kToVideo},
};

// Cameras also write TIFFs: with the tag DNGVersion (0xc612) in the first directory, or, as in NEF, ARW and
// PEF, with Make (0x010f) and pictures in further directories (SubIFDs, 0x014a).
std::string_view tiff_kind(std::span<const uint8_t> head) {
  const bool big = starts_with(head, 0, "MM");
  const Bytes in(head, "TIFF", big);
  if (!in.has(4, 4)) return {};
  size_t at = in.get(4, 4);
  bool make = false, more = false;
  const uint64_t entries = in.has(at, 2) ? in.get(at, 2) : 0;
  at += 2;
  for (uint64_t i = 0; i < entries && in.has(at, 12); ++i, at += 12) {
    const uint64_t tag = in.get(at, 2);
    if (tag == 0xc612) return "a raw photo (DNG)";
    make |= tag == 0x010f, more |= tag == 0x014a;
  }
  return make && more ? "a raw photo (NEF, ARW or the like)" : "";
}

// Recognises a web page or a drawing after white space, a byte order mark, comments and declarations.
std::string_view markup_kind(std::span<const uint8_t> head) {
  std::string text(text_of(head.first(std::min<size_t>(head.size(), 4096))));
  for (char& c : text) c = char(std::tolower(static_cast<unsigned char>(c)));
  const size_t first = text.find_first_not_of("\xef\xbb\xbf \t\r\n");
  if (first == text.npos || text[first] != '<') return {};
  const size_t page = std::min(text.find("<!doctype html"), text.find("<html"));
  const size_t drawing = std::min(text.find("<svg"), text.find("<!doctype svg"));
  if (page < drawing) return "a web page";
  return drawing != text.npos ? "an SVG drawing" : "an XML or HTML text";
}

std::string sentence(std::string_view kind, std::string_view way_out) {
  return std::string(kind) + (way_out.empty() ? "" : "; ") + std::string(way_out);
}

}  // namespace

std::string file_kind(std::span<const uint8_t> head, Wanted wanted) {
  if (head.empty()) return "an empty file";
  const bool tiff = starts_with(head, 0, std::string_view("II*\0", 4)) ||
                    starts_with(head, 0, std::string_view("MM\0*", 4));
  if (tiff && !starts_with(head, 8, "CR\x02")) {
    const std::string_view raw = tiff_kind(head);
    return raw.empty() ? sentence("a TIFF picture", kToPicture) : sentence(raw, kExport);
  }
  if (const std::string_view markup = markup_kind(head); !markup.empty())
    return sentence(markup, markup == "an SVG drawing" ? kDrawn : kAgain);
  for (const Mark& mark : kMarks) {
    if (!starts_with(head, mark.at, mark.bytes)) continue;
    if (mark.read_as & 1u << unsigned(wanted)) return std::string(kUnknownKind);
    const bool moves = mark.way_out == kToVideo, sounds = mark.way_out == kToSound;
    // A film is neither a misnamed sound nor a picture to convert.
    if (wanted == Wanted::picture && moves) return sentence(mark.kind, "save one of its pictures as PNG");
    if (wanted == Wanted::picture && sounds) return std::string(mark.kind);
    if (wanted != Wanted::picture && mark.way_out == kToPicture) return std::string(mark.kind);
    return sentence(mark.kind, mark.way_out);
  }
  return std::string(kUnknownKind);
}

std::string file_kind(const std::filesystem::path& path, Wanted wanted) {
  uint8_t head[4096] = {};
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::string(kUnknownKind);
  file.read(reinterpret_cast<char*>(head), sizeof head);
  return file_kind(std::span<const uint8_t>(head, size_t(file.gcount())), wanted);
}

}  // namespace tachy
