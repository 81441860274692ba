#include "web_api/fields/given_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/near_names.h"
#include "web_api/fields/json_body.h"
#include "web_api/fields/size_text.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

class Collector {
 public:
  GivenFields out;

  void take(const json& values, bool typed, bool inside) {
    for (auto it = values.begin(); it != values.end(); ++it) take_one(it.key(), it.value(), typed, inside);
  }

 private:
  void take_one(const std::string& name, const json& value, bool typed, bool inside) {
    const ApiField* field = find_api_field(name);
    if (!field || (inside && field->kind == ApiField::Kind::extra))
      throw ApiError("unknown_parameter",
                     fmt::format("`{}`: there is no such field{}", shown(name), near_fields(name)),
                     shown(name));
    const Value given{name, value, typed, !typed && is_sent_file(value)};
    if (field->kind == ApiField::Kind::extra) return take_extra(given);
    const auto before = out.values.find(field->member);
    if (before != out.values.end() || out.dropped.contains(field->member)) refuse_twice(name, before);
    if (value.is_null())
      out.dropped.insert(field->member);
    else
      out.values[field->member] = given;
  }

  [[noreturn]] void refuse_twice(const std::string& name,
                                 std::map<std::string, Value>::iterator before) const {
    const bool other = before != out.values.end() && before->second.param != name;
    throw ApiError("invalid_value",
                   other ? fmt::format("`{}`: it is given as `{}`, too", name, before->second.param)
                         : fmt::format("`{}`: it is given twice", name),
                   name);
  }

  void take_extra(const Value& given) {
    if (given.value.is_null()) return;
    const Value object = unwrapped(given);
    if (given.from_file || !object.value.is_object()) refuse(given, "an object of fields");
    take(object.value, object.typed, true);
  }
};

void refuse_both(const GivenFields& given, const char* one, const char* other) {
  const Value* a = given.find(one);
  const Value* b = given.find(other);
  if (a && b)
    throw ApiError("invalid_value", fmt::format("`{}`: give either this or `{}`", a->param, b->param),
                   a->param);
}

GivenFields fields_of_object(const json& values) {
  Collector collector;
  if (values.is_object()) collector.take(values, true, false);
  return std::move(collector.out);
}

// A new width leaves the earlier height as it was.
void split_size(GivenFields& given) {
  const Value* const size = given.find("size");
  if (!size) return;
  const auto [width, height] = size_in(*size);
  given.values.insert({"width", {"width", width}});
  given.values.insert({"height", {"height", height}});
  given.values.erase("size");
}

void lay_under(GivenFields& given, GivenFields under) {
  const auto gives = [&](const char* member) { return given.find(member) || given.dropped.contains(member); };
  if (under.find("frames")) under.values.erase("seconds");
  if (under.find("width") || under.find("height")) under.values.erase("size");
  if (gives("seconds")) under.values.erase("frames");
  if (gives("frames")) under.values.erase("seconds");
  if (gives("width") || gives("height")) split_size(under);
  if (gives("size")) under.values.erase("width"), under.values.erase("height");
  for (auto& [member, value] : under.values)
    if (!given.dropped.contains(member)) given.values.insert({member, std::move(value)});
}

}  // namespace

bool is_sent_file(const json& value) {
  return value.is_object() && value.size() == 1 && value.contains("file") &&
         value["file"].is_number_unsigned();
}

const Value* GivenFields::find(const std::string& member) const {
  const auto found = values.find(member);
  return found == values.end() ? nullptr : &found->second;
}

GivenFields given_fields(const Fields& fields) {
  Collector collector;
  collector.take(fields.values, fields.typed, false);
  refuse_both(collector.out, "seconds", "frames");
  refuse_both(collector.out, "size", "width");
  refuse_both(collector.out, "size", "height");
  return std::move(collector.out);
}

void lay_over_preset(GivenFields& given, const std::string& owner, const Offers& offers) {
  const Value* const preset = given.find("preset");
  if (!preset) return;
  const std::string name = text_in(*preset), param = preset->param;
  std::vector<std::string> names;
  for (const std::string_view known : std::get<Choices>(field_of_member("preset")->setting->allowed))
    names.emplace_back(known);
  if (std::ranges::find(names, name) != names.end()) return;
  const auto saved = offers.presets ? offers.presets(owner) : std::vector<queue::Preset>();
  for (const queue::Preset& one : saved) {
    if (one.name == name) {
      given.values.erase("preset");
      return lay_under(given, fields_of_object(parse_strict_json(one.fields, "the saved preset", param)));
    }
    names.push_back(one.name);
  }
  throw ApiError("invalid_value",
                 fmt::format("`{}`: there is no preset '{}'; near: {}", param, shown(name),
                             fmt::join(near_names(name, names), ", ")),
                 param);
}

GivenFields laid_over(const json& base, GivenFields given) {
  json plain = json::object();
  if (base.is_object())
    for (const auto& [name, value] : base.items())
      if (!(value.is_object() && value.contains("file"))) plain[name] = value;
  lay_under(given, fields_of_object(plain));
  return given;
}

}  // namespace tachy::web_api
