#include "text/spiece_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "base/error.h"
#include "text/utf8.h"

namespace tachy::text {
namespace {

constexpr size_t kMaxModelFile = 64u << 20, kMaxPieces = 4'000'000, kMaxPiece = 4096;
constexpr uint64_t kUnigram = 1, kFirstType = 1, kLastType = 6;

// Reads the fields of one message.
class Message {
 public:
  Message(std::string_view bytes, size_t offset, std::string_view name)
      : bytes_(bytes), offset_(offset), name_(name) {}

  // Reads the next field, and returns false at the end. The value is then in `number` or `payload`, depending
  // on the wire type.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const uint64_t tag = varint();
    field = static_cast<uint32_t>(tag >> 3);
    wire = static_cast<uint32_t>(tag & 7);
    check(tag >> 3 != 0 && tag >> 3 < (1u << 29), ErrorCode::corrupt, "{}: bad field number at byte {}",
          name_, place());
    switch (wire) {
      case 0:
        number = varint();
        break;
      case 1:
        payload = take(8);
        break;
      case 2:
        payload = take(varint());
        break;
      case 5:
        payload = take(4);
        break;
      default:
        fail(ErrorCode::corrupt, "{}: bad wire type {} at byte {}", name_, wire, place());
    }
    return true;
  }
  Message inside() const { return {payload, offset_ + at_ - payload.size(), name_}; }
  void expect(uint32_t wanted, std::string_view what) const {
    check(wire == wanted, ErrorCode::corrupt, "{}: {} has wire type {} at byte {}", name_, what, wire,
          place());
  }
  size_t place() const { return offset_ + at_; }

  uint32_t field = 0, wire = 0;
  uint64_t number = 0;
  std::string_view payload;

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      check(at_ < bytes_.size(), ErrorCode::corrupt, "{}: ends inside a number at byte {}", name_, place());
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail(ErrorCode::corrupt, "{}: a number has too many bytes at byte {}", name_, place());
  }
  std::string_view take(uint64_t size) {
    check(size <= bytes_.size() - at_, ErrorCode::corrupt,
          "{}: a field of {} bytes at byte {} exceeds its message", name_, size, place());
    const auto part = bytes_.substr(at_, size);
    at_ += size;
    return part;
  }
  std::string_view bytes_;
  size_t offset_, at_ = 0;
  std::string_view name_;
};

bool flag(const Message& message, std::string_view what) {
  message.expect(0, what);
  return message.number != 0;
}

std::string piece_name(const Message& message, std::string_view what) {
  message.expect(2, what);
  return std::string(message.payload);
}

void read_normalizer(Message spec, std::string_view name, SpieceFile& out) {
  while (spec.next()) {
    switch (spec.field) {
      case 2:
        spec.expect(2, "precompiled_charsmap");
        if (!spec.payload.empty())
          out.charsmap = Charsmap::parse(spec.payload, std::string(name) + ": precompiled_charsmap");
        break;
      case 3:
        out.add_dummy_prefix = flag(spec, "add_dummy_prefix");
        break;
      case 4:
        out.remove_extra_whitespaces = flag(spec, "remove_extra_whitespaces");
        break;
      case 5:
        out.escape_whitespaces = flag(spec, "escape_whitespaces");
        break;
      default:
        break;
    }
  }
}

void read_trainer(Message spec, std::string_view name, SpieceFile& out) {
  while (spec.next()) {
    switch (spec.field) {
      case 3:
        spec.expect(0, "model_type");
        check(spec.number == kUnigram, ErrorCode::unsupported,
              "{}: model_type {} is not supported, only unigram (1)", name, spec.number);
        break;
      case 24:
        out.whitespace_as_suffix = flag(spec, "treat_whitespace_as_suffix");
        break;
      case 47:
        out.eos_piece = piece_name(spec, "eos_piece");
        break;
      case 48:
        out.pad_piece = piece_name(spec, "pad_piece");
        break;
      default:
        break;
    }
  }
}

void add_piece(std::string_view text, float score, uint64_t type, std::string_view name,
               std::unordered_set<std::string_view>& seen, SpieceFile& out) {
  check(!text.empty() && text.size() <= kMaxPiece && find_invalid_utf8(text) == kValid &&
            text.find('\0') == text.npos,
        ErrorCode::corrupt, "{}: piece {} is empty, too long, not UTF-8 or holds a zero byte", name,
        seen.size());
  check(std::isfinite(score), ErrorCode::corrupt, "{}: the score of piece {} is not finite", name,
        seen.size());
  check(type >= kFirstType && type <= kLastType, ErrorCode::corrupt, "{}: piece {} has the unknown type {}",
        name, seen.size(), type);
  check(seen.insert(text).second, ErrorCode::corrupt, "{}: piece {} '{}' is there twice", name, seen.size(),
        text);
  check(seen.size() <= kMaxPieces, ErrorCode::corrupt, "{}: more than {} pieces", name, kMaxPieces);
  out.pieces.add(text);
  out.scores.push_back(score);
  out.types.push_back(static_cast<PieceType>(type));
}

void check_unknown(const SpieceFile& file, std::string_view name) {
  const auto unknowns = std::count(file.types.begin(), file.types.end(), PieceType::unknown);
  check(unknowns == 1, ErrorCode::corrupt, "{}: expected one unknown piece, got {}", name, unknowns);
}

void read_piece(Message piece, std::string_view name, std::unordered_set<std::string_view>& seen,
                SpieceFile& out) {
  std::string_view text;
  float score = 0.0f;
  uint64_t type = kFirstType;
  while (piece.next()) {
    if (piece.field == 1) {
      piece.expect(2, "a piece's text");
      text = piece.payload;
    } else if (piece.field == 2) {
      piece.expect(5, "a score");
      std::memcpy(&score, piece.payload.data(), 4);
    } else if (piece.field == 3) {
      piece.expect(0, "a piece's type");
      type = piece.number;
    }
  }
  add_piece(text, score, type, name, seen, out);
}

// Returns the text of piece `id`, which must be a control piece.
std::string control_text(const SpieceFile& file, int64_t id, std::string_view what, std::string_view name) {
  const auto i = static_cast<size_t>(id);
  check(id >= 0 && i < file.pieces.size() && file.types[i] == PieceType::control, ErrorCode::corrupt,
        "{}: {} {} is no control piece", name, what, id);
  return std::string(file.pieces[i]);
}

}  // namespace

SpieceFile read_spiece_file(std::string_view bytes, std::string_view name) {
  check(!bytes.empty() && bytes.size() <= kMaxModelFile, ErrorCode::corrupt,
        "{}: expected 1 to {} bytes, got {}", name, kMaxModelFile, bytes.size());
  SpieceFile out;
  std::unordered_set<std::string_view> seen;
  Message model(bytes, 0, name);
  while (model.next()) {
    if (model.field == 1) {
      model.expect(2, "a piece");
      read_piece(model.inside(), name, seen, out);
    } else if (model.field == 2) {
      model.expect(2, "trainer_spec");
      read_trainer(model.inside(), name, out);
    } else if (model.field == 3) {
      model.expect(2, "a normalizer");
      read_normalizer(model.inside(), name, out);
    }
  }
  check(!seen.empty(), ErrorCode::corrupt, "{}: not a SentencePiece model, or one without pieces", name);
  check_unknown(out, name);
  return out;
}

SpieceFile make_spiece_file(const Vocabulary& from, std::string_view name) {
  check(!from.pieces.empty() && from.pieces.size() == from.scores.size() &&
            from.pieces.size() == from.types.size(),
        ErrorCode::corrupt, "{}: {} pieces, {} scores and {} types", name, from.pieces.size(),
        from.scores.size(), from.types.size());
  SpieceFile out;
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < from.pieces.size(); ++i)
    add_piece(from.pieces[i], from.scores[i], static_cast<uint64_t>(from.types[i]), name, seen, out);
  check_unknown(out, name);
  if (!from.charsmap.empty())
    out.charsmap = Charsmap::parse(from.charsmap, std::string(name) + ": precompiled_charsmap");
  out.add_dummy_prefix = from.add_space_prefix;
  out.remove_extra_whitespaces = from.remove_extra_whitespaces;
  if (from.eos_id) out.eos_piece = control_text(out, *from.eos_id, "the end token", name);
  if (from.pad_id) out.pad_piece = control_text(out, *from.pad_id, "the padding token", name);
  return out;
}

}  // namespace tachy::text
