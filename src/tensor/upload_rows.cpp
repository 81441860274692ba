#include "tensor/upload_rows.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

namespace tachy {
namespace {

std::unique_ptr<char[]> room(size_t bytes) { return std::make_unique_for_overwrite<char[]>(bytes); }

// Writes bytes [begin, begin + count) of the rows from `first` on.
void make_piece(int64_t first, size_t row_bytes, const MakeRows& make, void* piece, size_t begin,
                size_t count) {
  const size_t skipped = begin % row_bytes, all = skipped + count;
  const int64_t row = first + static_cast<int64_t>(begin / row_bytes);
  const auto touched = static_cast<int64_t>((all + row_bytes - 1) / row_bytes);
  if (all % row_bytes == 0 && skipped == 0) return make(row, touched, piece);
  const auto whole = room(static_cast<size_t>(touched) * row_bytes);
  make(row, touched, whole.get());
  std::memcpy(piece, whole.get() + skipped, count);
}

}  // namespace

void upload_rows(DeviceMemory& memory, void* to, int64_t rows, size_t row_bytes, const MakeRows& make,
                 ThreadPool& pool) {
  if (rows == 0 || row_bytes == 0) return;
  const auto at_a_time = static_cast<int64_t>(std::max<size_t>(1, StreamingMemory::kPieceBytes / row_bytes));
  const auto count_from = [&](int64_t first) { return std::min(at_a_time, rows - first); };
  const auto bytes_of = [&](int64_t count) { return static_cast<size_t>(count) * row_bytes; };
  StreamingMemory* const streaming = StreamingMemory::of(&memory);
  if (!streaming) {
    const auto whole = room(bytes_of(rows));
    pool.run((rows + at_a_time - 1) / at_a_time, [&](int64_t i, int) {
      const int64_t first = i * at_a_time;
      make(first, count_from(first), whole.get() + bytes_of(first));
    });
    return memory.upload(to, whole.get(), bytes_of(rows));
  }
  std::vector<StreamingMemory::Upload> uploads;
  for (int64_t first = 0; first < rows; first += at_a_time)
    uploads.push_back({static_cast<char*>(to) + bytes_of(first), bytes_of(count_from(first)),
                       [=, &make](void* piece, size_t begin, size_t count) {
                         make_piece(first, row_bytes, make, piece, begin, count);
                       }});
  streaming->upload_all(uploads, pool);
}

}  // namespace tachy
