#include "text/spiece_normalizer.h"

#include "text/utf8.h"

namespace tachy::text {

SpieceNormalizer::SpieceNormalizer(const SpieceFile& file)
    : charsmap_(file.charsmap),
      space_(file.escape_whitespaces ? "\u2581" : " "),
      add_dummy_prefix_(file.add_dummy_prefix),
      remove_extra_(file.remove_extra_whitespaces),
      as_suffix_(file.whitespace_as_suffix) {
  for (size_t i = 0; i < file.types.size(); ++i)
    if (file.types[i] == PieceType::user_defined) user_defined_.add(file.pieces[i]);
  index_.build(user_defined_);
}

SpieceNormalizer::Prefix SpieceNormalizer::next(std::string_view text) const {
  size_t longest = 0;
  index_.prefixes(user_defined_, text, [&](size_t length, uint32_t) { longest = length; });
  if (longest > 0) return {text.substr(0, longest), longest};
  if (charsmap_)
    if (const auto found = charsmap_->longest(text)) return {found->second, found->first};
  const size_t length = char_length(static_cast<unsigned char>(text[0]));
  return {text.substr(0, length), length};
}

std::string SpieceNormalizer::apply(std::string_view valid) const {
  std::string_view rest = valid;
  while (remove_extra_ && !rest.empty()) {
    const Prefix p = next(rest);
    if (p.becomes != " ") break;
    rest.remove_prefix(p.length);
  }
  std::string out;
  if (rest.empty()) return out;
  out.reserve(rest.size() + rest.size() / 2);
  if (add_dummy_prefix_ && !as_suffix_) out += space_;
  for (bool after_space = remove_extra_; !rest.empty();) {
    auto [becomes, length] = next(rest);
    while (after_space && becomes.starts_with(' ')) becomes.remove_prefix(1);
    if (!becomes.empty()) {
      for (const char c : becomes) c == ' ' ? out += space_ : out += c;
      after_space = remove_extra_ && becomes.ends_with(' ');
    }
    rest.remove_prefix(length);
  }
  while (remove_extra_ && out.ends_with(space_)) out.resize(out.size() - space_.size());
  if (add_dummy_prefix_ && as_suffix_) out += space_;
  return out;
}

}  // namespace tachy::text
