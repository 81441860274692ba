#include "api/c_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "base/json_text.h"

namespace tachy {
namespace {

using nlohmann::json;

constexpr size_t kMostEntries = 64;  // of a list, as in settings that are read from JSON

template <class Number>
void read_value(std::string_view field, const std::string& text, Number& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  bool fits = error == std::errc() && end == text.data() + text.size();
  if constexpr (std::is_floating_point_v<Number>) fits = fits && std::isfinite(to);
  require(fits, "`{}`: expected {}, got '{}'", field,
          std::is_floating_point_v<Number> ? "a number"
          : std::is_signed_v<Number>       ? "a whole number of 32 bits"
                                           : "a whole number from 0 on",
          text.substr(0, 80));
}
void read_value(std::string_view, const std::string& text, std::string& to) { to = text; }
void read_value(std::string_view field, const std::string& text, std::vector<std::string>& to) {
  require(to.size() < kMostEntries, "`{}`: expected at most {} texts", field, kMostEntries);
  to.push_back(text);
}
void read_value(std::string_view field, const std::string& text, bool& to) {
  require(text == "true" || text == "false", "`{}`: expected true or false, got '{}'", field,
          text.substr(0, 80));
  to = text == "true";
}
template <class T>
void read_value(std::string_view field, const std::string& text, std::optional<T>& to) {
  T value{};
  read_value(field, text, value);
  to = std::move(value);
}

const char* kind_of(const std::string&) { return "text"; }
const char* kind_of(bool) { return "bool"; }
const char* kind_of(int) { return "int"; }
const char* kind_of(uint64_t) { return "int"; }
const char* kind_of(double) { return "number"; }
const char* kind_of(const std::vector<std::string>&) { return "list"; }
template <class T>
const char* kind_of(const std::optional<T>&) {
  return kind_of(T{});
}

const char* kind_of(const std::vector<float>&) { return "tensor"; }
const char* kind_of(const std::shared_ptr<const Picture>&) { return "picture"; }
const char* kind_of(const std::shared_ptr<const Footage>&) { return "video"; }
const char* kind_of(const std::shared_ptr<const ImageEmbeds>&) { return "tensor"; }
const char* kind_of(const std::shared_ptr<const Speech>&) { return "sound"; }

template <class Field, class Struct>
json described(const Field& field, const Struct& fresh) {
  json out = {{"name", field.name}, {"help", field.help}};
  std::visit(
      [&](auto member) {
        out["kind"] = kind_of(fresh.*member);
        if (const auto* value = value_in(fresh.*member)) out["default"] = *value;
      },
      field.member);
  if (const auto* range = std::get_if<Range>(&field.allowed))
    out["least"] = range->least, out["most"] = range->most, out["above"] = range->above;
  if (const auto* choices = std::get_if<Choices>(&field.allowed)) out["choices"] = *choices;
  return out;
}

template <class Entry, class Struct>
void set_field(const Entry& field, const std::string& text, Struct& to) {
  std::visit([&](auto member) { read_value(field.name, text, to.*member); }, field.member);
}

const RequestField* request_field(std::string_view name) {
  if (const RequestField* field = find_field(request_fields(), name)) return field;
  for (const RequestField& field : request_fields())
    if (field.key == name) return &field;
  return nullptr;
}

}  // namespace

std::string c_text(std::string_view field, const char* text) {
  if (!text) return {};
  const size_t length = strnlen(text, kMostCText + 1);
  require(length <= kMostCText, "`{}`: expected a text of at most {} bytes", field, kMostCText);
  return {text, length};
}

void set_fields(VideoRequest& request, std::span<const tachyscope_setting> settings) {
  for (const tachyscope_setting& setting : settings) {
    const std::string name = c_text("settings", setting.name);
    const RequestField* field = request_field(name);
    require(field != nullptr, "`{}`: a request has no such field", name.substr(0, 80));
    require(setting.value != nullptr, "`{}`: its value is null", field->name);
    set_field(*field, c_text(field->name, setting.value), request);
  }
}

void set_fields(EngineOptions& options, std::span<const tachyscope_setting> settings) {
  for (const tachyscope_setting& setting : settings) {
    const std::string name = c_text("options", setting.name);
    const EngineField* field = find_field(engine_fields(), name);
    require(field != nullptr, "`{}`: an engine has no such option", name.substr(0, 80));
    require(setting.value != nullptr, "`{}`: its value is null", field->name);
    const std::string text = c_text(field->name, setting.value);
    if (name == "max_vram")
      options.max_vram = naming("`max_vram`", [&] { return text == "0" ? 0 : parse_bytes(text); });
    else
      set_field(*field, text, options);
  }
}

std::string fields_json() {
  json out = {{"request", json::array()}, {"inputs", json::array()}, {"engine", json::array()}};
  for (const RequestField& field : request_fields()) {
    out["request"].push_back(described(field, VideoRequest()));
    out["request"].back()["key"] = field.key;
  }
  for (const RequestInput& input : request_inputs()) {
    const VideoRequest fresh;
    const char* kind = std::visit([&](auto member) { return kind_of(fresh.*member); }, input.member);
    out["inputs"].push_back({{"name", input.name}, {"help", input.help}, {"kind", kind}});
  }
  for (const EngineField& field : engine_fields()) out["engine"].push_back(described(field, EngineOptions()));
  return json_line(out);
}

void check_c_size(const char* what, const void* given, uint64_t size, size_t known, size_t least) {
  require((size >= known || (least && size == least)) && size <= 1 << 16,
          "{}: `size`: expected {} (sizeof), got {}", what, known, size);
  const auto* bytes = static_cast<const uint8_t*>(given);
  if (size <= known) return;
  check(std::all_of(bytes + known, bytes + size, [](uint8_t b) { return b == 0; }), ErrorCode::unsupported,
        "{}: it has fields that this version does not know ({} bytes, here {})", what, size, known);
}

}  // namespace tachy
