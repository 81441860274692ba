// PieceIndex finds all pieces of a vocabulary that begin a text, shortest first.
//
// The pieces' bytes lie in one string. An array of their numbers, sorted by bytes, serves as the trie: a node
// is a range of that array whose pieces share a prefix, and a step to a child narrows the range by binary
// search. This takes four bytes per piece, and only the sort to build. (A double array would be faster to
// search, but a prompt is short, and users wait for 256,000 pieces to load.)
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
  // The last one of equal pieces counts; empty pieces are never found.
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
  // Keeps the pieces of [low, high), all longer than `depth`, whose byte at `depth` is `byte`.
  void narrow(const PieceTable& table, size_t depth, unsigned char byte, uint32_t& low, uint32_t& high) const;

  std::vector<uint32_t> order_;
  std::array<uint32_t, 257> first_{};  // the place in order_ where each first byte begins
};

}  // namespace tachy::text
