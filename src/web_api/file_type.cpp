#include "web_api/file_type.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace tachy::web_api {

const char* type_of_bytes(std::string_view head) {
  if (head.starts_with("\x89PNG")) return "image/png";
  if (head.starts_with("\xff\xd8\xff")) return "image/jpeg";
  const std::string_view kind = head.size() < 12 ? std::string_view() : head.substr(8, 4);
  if (head.starts_with("RIFF") && kind == "WEBP") return "image/webp";
  if (head.starts_with("RIFF") && kind == "WAVE") return "audio/wav";
  if (head.starts_with("GIF8")) return "image/gif";
  if (head.substr(std::min<size_t>(head.size(), 4)).starts_with("ftypavif")) return "image/avif";
  if (head.starts_with("RIFF") && kind == "AVI ") return "video/x-msvideo";
  if (head.substr(std::min<size_t>(head.size(), 4)).starts_with("ftyp")) return "video/mp4";
  if (head.starts_with("\x1a\x45\xdf\xa3")) return "video/webm";
  return "application/octet-stream";
}

const char* type_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string head(12, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  return type_of_bytes(head);
}

}  // namespace tachy::web_api
