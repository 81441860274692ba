// PieceIndex finds all pieces of a vocabulary with which a text begins, shortest first.
//
// The bytes of all pieces are in one string. An array of the pieces' numbers, sorted by bytes, serves as the
// trie: a node is a range of the array whose pieces share a prefix, and a binary search narrows the range to
// a child. This takes four bytes per piece and only a sort to build. (A double array would be faster to
// search, but prompts are short, and users wait while 256,000 pieces are loaded.)
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tachy::text {

class PieceTable {
 public:
  void reserve(size_t pieces, size_t bytes);
  void add(std::string_view piece);
  size_t size() const { return ends_.size(); }
  size_t bytes() const { return bytes_.size(); }
  std::string_view operator[](size_t id) const {
    const uint32_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::string_view(bytes_).substr(begin, ends_[id] - begin);
  }

 private:
  std::string bytes_;
  std::vector<uint32_t> ends_;
};

class PieceIndex {
 public:
  // Of equal pieces, the last one counts. Empty pieces are never found.
  void build(const PieceTable& table);

  // Calls found(length, id) for every piece that is a prefix of `text`, shortest first.
  template <class Found>
  void prefixes(const PieceTable& table, std::string_view text, Found&& found) const {
    if (text.empty() || order_.empty()) return;
    const auto lead = static_cast<unsigned char>(text[0]);
    uint32_t low = first_[lead], high = first_[lead + 1u];
    for (size_t depth = 1; low < high; ++depth) {
      if (table[order_[low]].size() == depth) found(depth, order_[low++]);
      if (depth == text.size()) return;
      narrow(table, depth, static_cast<unsigned char>(text[depth]), low, high);
    }
  }

  int64_t find(const PieceTable& table, std::string_view piece) const;  // -1 if absent

 private:
  // Narrows [low, high), whose pieces are all longer than `depth`, to those with `byte` at `depth`.
  void narrow(const PieceTable& table, size_t depth, unsigned char byte, uint32_t& low, uint32_t& high) const;

  std::vector<uint32_t> order_;
  std::array<uint32_t, 257> first_{};  // where each first byte begins in order_
};

}  // namespace tachy::text
