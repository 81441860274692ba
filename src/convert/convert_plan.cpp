#include "convert/convert_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "weights/gguf/gguf_encode.h"
#include "weights/plain_values.h"
#include "weights/quote.h"

namespace tachy {

uint64_t ConvertPlan::bytes() const {
  uint64_t total = 0;
  for (const ConvertFile& file : files) total += file.layout.bytes;
  for (const auto& [path, text] : texts) total += text.size();
  for (const auto& [from, to] : copies) {
    std::error_code error;
    total += std::filesystem::file_size(from, error);
    check(!error, ErrorCode::io, "{}: cannot read: {}", from.string(), error.message());
  }
  return total;
}

ConvertForm parse_form(const std::string& to) {
  using Kind = ConvertForm::Kind;
  for (const auto& [name, kind] : {std::pair<std::string_view, Kind>{"diffusers", Kind::diffusers},
                                   {"single", Kind::single},
                                   {"fp8", Kind::fp8},
                                   {"int8", Kind::int8}})
    if (to == name) return {.kind = kind};
  std::vector<std::string> types;
  for (const std::string_view name : encodable_gguf_types()) {
    std::string upper(name);
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    types.push_back(upper);
    if (to == "gguf:" + upper || to == "gguf:" + std::string(name))
      return {.kind = Kind::gguf, .type = find_gguf_type(name)};
  }
  fail(ErrorCode::invalid_argument,
       "`to`: expected diffusers, single, fp8, int8 or gguf:TYPE with a TYPE of {}, got '{}'",
       fmt::join(types, ", "), to);
}

TensorSource::Entry restored(const TensorSource& source, const TensorSource::Entry& entry) {
  check(entry.unusable.empty(), ErrorCode::unsupported, "{}: tensor {}: {}", source.file_of(entry),
        in_quotes(entry.name_in_file), entry.unusable);
  TensorSource::Entry out = entry;
  const bool table = entry.name.ends_with("scale_shift_table") || entry.name.ends_with(".pos_embed");
  // A derived tensor is made in rows of the file's shape, so its shape must stay.
  while (table && !entry.derived && out.dims.size() < 3) out.dims.insert(out.dims.begin(), 1);
  return out;
}

DType kept_dtype(const TensorSource::Entry& entry) {
  if (!entry.derived) return entry.dtype;
  return entry.derived->encoding() == dtype_name(DType::f64) ? DType::f32 : DType::bf16;
}

bool is_left_out(const TensorSource::Entry& entry, std::vector<std::string>& notes) {
  if (entry.unusable.empty() || is_weight_name(entry.name)) return false;
  notes.push_back(fmt::format("left out: tensor {}: {}", in_quotes(entry.name_in_file), entry.unusable));
  return true;
}

std::string encodings_of(const TensorSource& source) {
  std::set<std::string_view> names;
  for (const auto& entry : source.entries())
    if (entry.derived && entry.derived->encoding() != dtype_name(DType::f64))
      names.insert(entry.derived->encoding());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace tachy
