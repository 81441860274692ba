// The sorted array and its binary searches. Sorting first compares eight bytes as one number, which nearly
// always decides.
#include "text/piece_index.h"

#include <algorithm>

#include "base/error.h"

namespace tachy::text {
namespace {

uint64_t head(std::string_view piece) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i)
    value = value << 8 | (i < piece.size() ? static_cast<unsigned char>(piece[i]) : 0u);
  return value;
}

}  // namespace

void PieceTable::reserve(size_t pieces, size_t bytes) {
  ends_.reserve(pieces);
  bytes_.reserve(bytes);
}

void PieceTable::add(std::string_view piece) {
  check(bytes_.size() + piece.size() <= UINT32_MAX, ErrorCode::corrupt,
        "vocabulary: more than 4 GiB of pieces");
  bytes_ += piece;
  ends_.push_back(static_cast<uint32_t>(bytes_.size()));
}

void PieceIndex::build(const PieceTable& table) {
  struct Entry {
    uint64_t head;
    uint32_t id;
  };
  std::vector<Entry> entries;
  entries.reserve(table.size());
  for (uint32_t id = 0; id < table.size(); ++id)
    if (!table[id].empty()) entries.push_back({head(table[id]), id});
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    if (a.head != b.head) return a.head < b.head;
    const int order = table[a.id].compare(table[b.id]);
    return order != 0 ? order < 0 : a.id < b.id;
  });
  order_.clear();
  order_.reserve(entries.size());
  for (const Entry& e : entries) {
    if (!order_.empty() && table[order_.back()] == table[e.id])
      order_.back() = e.id;
    else
      order_.push_back(e.id);
  }
  first_.fill(0);
  for (uint32_t id : order_) first_[static_cast<unsigned char>(table[id][0]) + 1u] += 1;
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
}

void PieceIndex::narrow(const PieceTable& table, size_t depth, unsigned char byte, uint32_t& low,
                        uint32_t& high) const {
  auto at = [&](uint32_t id) { return static_cast<unsigned char>(table[id][depth]); };
  const auto begin = order_.begin() + low, end = order_.begin() + high;
  const auto from = std::partition_point(begin, end, [&](uint32_t id) { return at(id) < byte; });
  const auto to = std::partition_point(from, end, [&](uint32_t id) { return at(id) <= byte; });
  low = static_cast<uint32_t>(from - order_.begin());
  high = static_cast<uint32_t>(to - order_.begin());
}

int64_t PieceIndex::find(const PieceTable& table, std::string_view piece) const {
  const auto at = std::lower_bound(order_.begin(), order_.end(), piece,
                                   [&](uint32_t id, std::string_view p) { return table[id] < p; });
  return at != order_.end() && table[*at] == piece ? static_cast<int64_t>(*at) : -1;
}

}  // namespace tachy::text
