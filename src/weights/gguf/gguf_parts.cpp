#include "weights/gguf/gguf_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "weights/quote.h"

namespace tachy {
namespace {

constexpr int64_t kMostParts = 4096;
constexpr size_t kDigits = 5;

std::string ending_of(int64_t number, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number, count);
}

GgufPart open_part(const std::filesystem::path& path, FileAccess access) {
  auto file = std::make_shared<const MappedFile>(path, access);
  GgufHeader header(file->bytes(), file->path());
  return {std::move(file), std::move(header)};
}

void expect_part(const GgufPart& part, int64_t number, int64_t count) {
  const std::string& path = part.file->path();
  const int64_t says = part.header.integer("split.no").value_or(-1),
                of = part.header.integer("split.count").value_or(1);
  check(says == number - 1 && of == count, ErrorCode::corrupt,
        "{}: expected part {} of {} by its name, but its keys say split.no {} of {}", path, number, count,
        says, of);
}

}  // namespace

bool is_later_gguf_part(std::string_view name) {
  const std::string shape = ending_of(0, 0);
  if (name.size() < shape.size()) return false;
  const std::string_view ending = name.substr(name.size() - shape.size());
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == '0' ? ending[i] < '0' || ending[i] > '9' : ending[i] != shape[i]) return false;
  return ending.substr(1, kDigits) != "00001" && ending.substr(1, kDigits) != "00000";
}

std::vector<GgufPart> open_gguf_parts(const std::filesystem::path& path, FileAccess access) {
  std::vector<GgufPart> parts;
  parts.push_back(open_part(path, access));
  const GgufHeader& about = parts[0].header;
  const int64_t count = about.integer("split.count").value_or(1), no = about.integer("split.no").value_or(0);
  if (count <= 1) return parts;
  check(count <= kMostParts && no >= 0 && no < count, ErrorCode::corrupt,
        "{}: it says that it is part {} of {}; up to {} are read", path.string(), no, count, kMostParts);
  const std::string name = path.filename().string(), ending = ending_of(no + 1, count);
  check(
      name.ends_with(ending), ErrorCode::not_found,
      "{}: the file is part {} of {}, and the others are found by their names: expected one that ends in {}",
      path.string(), no + 1, count, ending);
  const std::string stem = name.substr(0, name.size() - ending.size());
  std::vector<GgufPart> all;
  all.reserve(static_cast<size_t>(count));
  size_t tensors = 0;
  for (int64_t number = 1; number <= count; ++number) {
    const std::filesystem::path file = path.parent_path() / (stem + ending_of(number, count));
    std::error_code error;
    check(std::filesystem::is_regular_file(file, error), ErrorCode::not_found,
          "{}: part {} of {} is missing: {}", path.string(), number, count, file.filename().string());
    all.push_back(open_part(file, access));
    expect_part(all.back(), number, count);
    tensors += all.back().header.tensors().size();
  }
  const auto said = all[0].header.integer("split.tensors.count");
  check(!said || *said == static_cast<int64_t>(tensors), ErrorCode::corrupt,
        "{}: split.tensors.count: {} tensors, but the {} parts hold {}", all[0].file->path(),
        said.value_or(0), count, tensors);
  return all;
}

}  // namespace tachy
