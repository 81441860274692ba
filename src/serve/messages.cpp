#include "serve/messages.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"

namespace tachy::serve {
namespace {

using nlohmann::json;

// Beyond this limit JavaScript's numbers are no longer exact integers.
constexpr uint64_t kMostStamp = uint64_t{1} << 53;

json parse_object(std::string_view text) {
  std::set<std::string> names;
  bool twice = false;
  json out = parsed_or_discarded(text, [&](int depth, const std::string& key) {
    if (depth == 1) twice = !names.insert(key).second || twice;
  });
  require(!out.is_discarded() && out.is_object(), "a message is not a JSON object");
  require(!twice, "a message has the same member twice");
  return out;
}

// Each member must be asked for; members that remain at the end are unknown.
class Members {
 public:
  explicit Members(json object) : object_(std::move(object)) {}
  std::optional<json> take(const char* name) {
    const auto it = object_.find(name);
    if (it == object_.end()) return std::nullopt;
    json value = std::move(*it);
    object_.erase(it);
    return value;
  }
  json need(const char* name) {
    std::optional<json> value = take(name);
    require(value.has_value(), "a message has no '{}'", name);
    return std::move(*value);
  }
  void finish() const {
    require(object_.empty(), "a message has an unknown member '{}'",
            object_.empty() ? "" : object_.begin().key());
  }

 private:
  json object_;
};

uint64_t whole(const json& value, const char* name, uint64_t most) {
  require(value.is_number_unsigned() && value.get<uint64_t>() <= most,
          "'{}': expected a whole number from 0 to {}", name, most);
  return value.get<uint64_t>();
}

std::vector<float> keys_of(const json& names, const WorldInfo& info) {
  std::vector<float> out(info.keys.size(), 0.0f);
  require(names.is_array() && names.size() <= out.size(), "'keys': expected a list of at most {} names",
          out.size());
  for (const json& name : names) {
    const auto at = name.is_string() ? std::find(info.keys.begin(), info.keys.end(), name.get<std::string>())
                                     : info.keys.end();
    require(at != info.keys.end(), "'keys': this model has no key {}", json_line(name));
    float& value = out[static_cast<size_t>(at - info.keys.begin())];
    require(value == 0, "'keys': {} is there twice", json_line(name));
    value = 1;
  }
  return out;
}

std::vector<float> mouse_of(const std::optional<json>& values, const WorldInfo& info) {
  if (!values) return std::vector<float>(info.mouse ? 2 : 0, 0.0f);
  require(info.mouse, "'mouse': this model has no mouse");
  require(values->is_array() && values->size() == 2, "'mouse': expected [pitch, yaw]");
  std::vector<float> out;
  for (const json& value : *values) {
    const double number = value.is_number() ? value.get<double>() : 2;
    require(std::abs(number) <= 1, "'mouse': expected numbers from -1 to 1");
    out.push_back(static_cast<float>(number));
  }
  return out;
}

StartMessage start_of(Members& members, const WorldInfo& info) {
  StartMessage out;
  if (const auto seed = members.take("seed")) out.seed = whole(*seed, "seed", UINT64_MAX);
  if (const auto prompt = members.take("prompt")) {
    require(info.takes_prompt, "'prompt': this model reads no text");
    require(prompt->is_string(), "'prompt': expected a text");
    out.prompt = prompt->get<std::string>();
  }
  return out;
}

ClientMessage message_of(Members& members, const std::string& type, const WorldInfo& info) {
  if (type == "input") {
    InputMessage out;
    out.action.keyboard = keys_of(members.need("keys"), info);
    out.action.mouse = mouse_of(members.take("mouse"), info);
    out.stamp = whole(members.need("stamp"), "stamp", kMostStamp);
    return out;
  }
  if (type == "seen") return SeenMessage{whole(members.need("sequence"), "sequence", kMostStamp)};
  if (type == "start") return start_of(members, info);
  if (type == "reset") return ResetMessage{};
  if (type == "stop") return StopMessage{};
  if (type == "record") {
    const json on = members.need("on");
    require(on.is_boolean(), "'on': expected true or false");
    return RecordMessage{on.get<bool>()};
  }
  fail(ErrorCode::invalid_argument, "'type': expected input, start, reset, stop, record or seen");
}

template <class Number>
void append(Number value, std::vector<uint8_t>& out) {
  for (size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

}  // namespace

bool InputMessage::held() const {
  const auto used = [](float v) { return v != 0; };
  return std::any_of(action.keyboard.begin(), action.keyboard.end(), used) ||
         std::any_of(action.mouse.begin(), action.mouse.end(), used);
}

std::string parse_ticket(std::string_view text) {
  Members members(parse_object(text));
  require(members.need("type") == "ticket", "'type': expected a ticket first");
  const json ticket = members.need("ticket");
  require(ticket.is_string(), "'ticket': expected a text");
  members.finish();
  return ticket.get<std::string>();
}

ClientMessage parse_message(std::string_view text, const WorldInfo& info) {
  Members members(parse_object(text));
  const json type = members.need("type");
  ClientMessage out = message_of(members, type.is_string() ? type.get<std::string>() : "", info);
  members.finish();
  return out;
}

void append_header(const FrameHeader& header, std::vector<uint8_t>& out) {
  for (const char c : std::string_view("TYF1")) out.push_back(static_cast<uint8_t>(c));
  append(header.run, out);
  append(header.sequence, out);
  append(header.frame, out);
  append(header.stamp, out);
}

json hello_event(const WorldInfo& info, double fps, const std::string& device, const std::string& session,
                 bool has_picture, const WorldStart& start) {
  return {{"type", "hello"},
          {"session", session},
          {"kind", info.kind},
          {"device", device},
          {"keys", info.keys},
          {"mouse", info.mouse},
          {"mouse_step", info.mouse_step},
          {"width", info.width},
          {"height", info.height},
          {"fps", fps},
          {"block_frames", info.block_frames},
          {"first_block_frames", info.first_block_frames},
          {"takes_image", info.takes_image && info.no_image_encoder.empty()},
          {"takes_prompt", info.takes_prompt},
          {"has_picture", has_picture},
          {"prompt", start.prompt},
          {"seed", start.seed}};
}

}  // namespace tachy::serve
