// The messages between page and server.
//
// The page sends text, one JSON object per message; anything else ends the visit:
//
//   {"type": "input", "keys": ["W"], "mouse": [pitch, yaw], "stamp": 7}   what is held now; mouse may be left
//                                                                         out
//   {"type": "start", "seed": 7, "prompt": "…"}                           a new session; both may be left out
//   {"type": "reset"} {"type": "stop"} {"type": "record", "on": true}
//   {"type": "seen", "sequence": 41}                                      frames up to this one have arrived
//   {"type": "ticket", "ticket": "tt-…"}                                  the first message, where there are keys
//
// The server sends events as text (an object with "type": hello, state, block, recording, notice, closing,
// and alive every few seconds) and frames as binary messages: a header of 32 bytes, with the least
// significant byte of all numbers first, and a JPEG.
//
//   0  "TYF1"    4  u32 run: counts starts    8  u64 sequence: counts frames of the visit, including dropped
//                ones
//   16 u64 index of the frame in its run      24 u64 stamp of the action that its block followed
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/world.h"

namespace tachy::serve {

struct InputMessage {
  WorldAction action;  // has values for all keys, and for the mouse if the model has one
  uint64_t stamp = 0;
  bool held() const;
};
struct StartMessage {
  std::optional<uint64_t> seed;
  std::optional<std::string> prompt;
};
struct ResetMessage {};
struct StopMessage {};
struct RecordMessage {
  bool on = false;
};
struct SeenMessage {
  uint64_t sequence = 0;
};
using ClientMessage =
    std::variant<InputMessage, StartMessage, ResetMessage, StopMessage, RecordMessage, SeenMessage>;

// Returns the ticket in {"type": "ticket", "ticket": "…"}, the first message where a server has keys. Throws
// invalid_argument.
std::string parse_ticket(std::string_view text);

// Throws invalid_argument, saying what was expected: for a text that is not JSON, an unknown or repeated
// member, an unknown type, a key that the model does not have, a number out of range.
ClientMessage parse_message(std::string_view text, const WorldInfo& info);

inline constexpr size_t kFrameHeaderBytes = 32;
struct FrameHeader {
  uint32_t run = 0;
  uint64_t sequence = 0, frame = 0, stamp = 0;
};
void append_header(const FrameHeader& header, std::vector<uint8_t>& out);

// The first event of a visit tells which inputs the model takes, and the key that identifies this visit's
// uploads.
nlohmann::json hello_event(const WorldInfo& info, double fps, const std::string& device,
                           const std::string& session, bool has_picture, const WorldStart& start);

}  // namespace tachy::serve
