// A SAX handler for nlohmann's parser, which does not recurse.
#include "text/json_reader.h"

#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json_mistake.h"

namespace tachy::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxJsonFile = 256u << 20;
constexpr size_t kMaxDepth = 64, kMaxValues = 2'000'000, kMaxJsonPieces = 4'000'000, kMaxJsonPiece = 4096;

class Handler {
 public:
  Handler(TokenizerFile& out, std::string_view file) : out_(out), file_(file) {}

  bool null() { return value(json(nullptr)); }
  bool boolean(bool v) { return value(json(v)); }
  bool number_integer(json::number_integer_t v) {
    return in_vocab_ ? score(static_cast<double>(v)) : value(json(v));
  }
  bool number_unsigned(json::number_unsigned_t v) {
    return in_vocab_ ? score(static_cast<double>(v)) : value(json(v));
  }
  bool number_float(json::number_float_t v, const std::string& text) {
    return in_vocab_ ? score(serde_number(text)) : value(json(v));
  }
  bool string(std::string& v) {
    if (!in_vocab_) return value(json(std::move(v)));
    if (place_ != Place::piece) return wrong_vocab("a piece");
    check(v.size() <= kMaxJsonPiece, ErrorCode::corrupt, "{}: model.vocab[{}] has {} bytes, more than {}",
          file_, out_.pieces.size(), v.size(), kMaxJsonPiece);
    out_.pieces.add(v);
    place_ = Place::score;
    return true;
  }
  bool binary(json::binary_t&) { return false; }
  bool key(std::string& v) {
    if (in_vocab_) return wrong_vocab("a key");
    key_ = v;
    if (open_.size() == 1) top_key_ = v;
    return true;
  }
  bool start_object(size_t) {
    if (in_vocab_) return wrong_vocab("an object");
    check(!at_vocab(), ErrorCode::unsupported,
          "{}: model.vocab is an object, so the model is not Unigram; only Unigram is supported", file_);
    return enter(json::object());
  }
  bool end_object() { return leave(); }
  bool start_array(size_t) {
    if (in_vocab_) {
      if (place_ != Place::entry) return wrong_vocab("an array");
      check(out_.scores.size() < kMaxJsonPieces, ErrorCode::corrupt,
            "{}: model.vocab has more than {} pieces", file_, kMaxJsonPieces);
      place_ = Place::piece;
      return true;
    }
    if (!at_vocab()) return enter(json::array());
    check(!out_.has_vocab, ErrorCode::corrupt, "{}: model.vocab is there twice", file_);
    out_.has_vocab = in_vocab_ = true;
    place_ = Place::entry;
    return true;
  }
  bool end_array() {
    if (!in_vocab_) return leave();
    if (place_ == Place::close) {
      place_ = Place::entry;
    } else if (place_ == Place::entry) {
      in_vocab_ = false;
    } else {
      return wrong_vocab("the end of an array");
    }
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    fail(ErrorCode::corrupt, "{}: the file is damaged: no JSON at byte {}: {}; fetch it again", file_,
         position, json_words(error.what()));
  }

 private:
  enum class Place { entry, piece, score, close };  // what may come next inside model.vocab

  bool at_vocab() const { return open_.size() == 2 && top_key_ == "model" && key_ == "vocab"; }

  bool wrong_vocab(std::string_view got) {
    const char* wanted[] = {"an array [piece, score]", "the piece, a string", "the score, a number",
                            "the end of [piece, score]"};
    fail(ErrorCode::corrupt, "{}: model.vocab[{}]: expected {}, got {}", file_, out_.scores.size(),
         wanted[static_cast<int>(place_)], got);
  }

  bool score(double v) {
    if (place_ != Place::score) return wrong_vocab("a number");
    check(std::isfinite(v), ErrorCode::corrupt, "{}: model.vocab[{}]: the score is not finite", file_,
          out_.scores.size());
    out_.scores.push_back(v);
    place_ = Place::close;
    return true;
  }

  json* put(json&& v) {
    check(++values_ <= kMaxValues, ErrorCode::corrupt, "{}: more than {} values", file_, kMaxValues);
    if (open_.empty()) {
      out_.rest = std::move(v);
      return &out_.rest;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(v));
      return &open_.back()->back();
    }
    json& slot = (*open_.back())[key_];
    slot = std::move(v);
    return &slot;
  }
  bool value(json&& v) {
    if (in_vocab_) return wrong_vocab(v.type_name());
    put(std::move(v));
    return true;
  }
  bool enter(json&& v) {
    check(open_.size() < kMaxDepth, ErrorCode::corrupt, "{}: nested deeper than {} levels", file_, kMaxDepth);
    open_.push_back(put(std::move(v)));
    return true;
  }
  bool leave() {
    open_.pop_back();
    return true;
  }

  TokenizerFile& out_;
  std::string_view file_;
  std::vector<json*> open_;
  std::string key_, top_key_;
  size_t values_ = 0;
  bool in_vocab_ = false;
  Place place_ = Place::entry;
};

}  // namespace

double serde_number(std::string_view text) {
  static const auto powers = [] {
    std::array<double, 309> table;
    for (int i = 0; i < 309; ++i) table[static_cast<size_t>(i)] = std::stod("1e" + std::to_string(i));
    return table;
  }();
  size_t at = 0;
  const bool negative = at < text.size() && text[at] == '-';
  at += negative;
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool full = false, fraction = false;
  for (; at < text.size() && ((text[at] >= '0' && text[at] <= '9') || text[at] == '.'); ++at) {
    if (text[at] == '.') {
      fraction = true;
      continue;
    }
    const auto digit = static_cast<uint64_t>(text[at] - '0');
    full |= digits > (UINT64_MAX - digit) / 10;  // digits beyond 64 bits only count as powers of ten
    if (!full) {
      digits = digits * 10 + digit;
      exponent -= fraction;
    } else {
      exponent += !fraction;
    }
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    at += 1;
    const bool minus = at < text.size() && text[at] == '-';
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    int64_t written = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && written < 100000; ++at)
      written = written * 10 + (text[at] - '0');
    exponent += minus ? -written : written;
  }
  auto value = static_cast<double>(digits);
  while (value != 0.0 && exponent != 0) {
    if (exponent > 308) {
      value = std::numeric_limits<double>::infinity();
      break;
    }
    if (exponent < -308) {
      value /= powers[308];
      exponent += 308;
      continue;
    }
    value = exponent > 0 ? value * powers[static_cast<size_t>(exponent)]
                         : value / powers[static_cast<size_t>(-exponent)];
    break;
  }
  return negative ? -value : value;
}

TokenizerFile read_tokenizer_json(std::string_view bytes, std::string_view file) {
  check(bytes.size() <= kMaxJsonFile, ErrorCode::corrupt, "{}: expected at most {} bytes, got {}", file,
        kMaxJsonFile, bytes.size());
  TokenizerFile out;
  Handler handler(out, file);
  const bool ok = json::sax_parse(bytes.begin(), bytes.end(), &handler);
  check(ok, ErrorCode::corrupt, "{}: the file is damaged; fetch it again", file);
  check(out.rest.is_object(), ErrorCode::corrupt, "{}: expected a JSON object", file);
  return out;
}

}  // namespace tachy::text
