#include "web_api/fields/lora_picture.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "api/tachyscope.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/json_text.h"
#include "web_api/file_type.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {".preview", ""};
constexpr const char* kShownEndings[] = {".png",  ".jpg", ".jpeg", ".jpe",  ".webp", ".gif",
                                         ".avif", ".PNG", ".JPG",  ".JPEG", ".WEBP", ".GIF"};
constexpr uint64_t kMostShownBytes = uint64_t{16} << 20;

bool is_picture(std::string_view type) { return type.starts_with("image/"); }

}  // namespace

fs::path picture_of_lora(const OfferedLora& lora) {
  for (const char* name : kNames)
    for (const char* ending : kShownEndings) {
      fs::path file = lora.path;
      file.replace_extension(std::string(name) + ending);
      std::error_code error;
      if (!fs::is_regular_file(file, error)) continue;
      const uint64_t bytes = fs::file_size(file, error);
      if (!error && bytes <= kMostShownBytes && is_picture(type_of_file(file))) return file;
    }
  return {};
}

std::string cover_in(const std::map<std::string, std::string>& metadata) {
  const auto covers = metadata.find("ssmd_cover_images");
  if (covers == metadata.end()) return "";
  const nlohmann::json list = parsed_or_discarded(covers->second);
  if (!list.is_array() || list.empty() || !list.front().is_string()) return "";
  std::string bytes = from_base64(list.front().get_ref<const std::string&>()).value_or("");
  return bytes.size() <= kMostShownBytes && is_picture(type_of_bytes(bytes)) ? bytes : "";
}

std::string cover_of_lora(const OfferedLora& lora) try {
  return cover_in(read_metadata(lora.path));
} catch (const Error&) {
  return "";
}

}  // namespace tachy::web_api
