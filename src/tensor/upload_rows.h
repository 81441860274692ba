// Uploads of rows that are made on the way: each thread writes rows into page-locked memory while others are being
// copied, so that no image of the whole tensor is needed on the host.
#pragma once

#include <functional>

#include "tensor/streaming_memory.h"

namespace tachy {

// Called to write rows [first, first + count) one after the other to `rows`. Any thread calls it, and several do at a time.
// A row may be asked for more than once.
using MakeRows = std::function<void(int64_t first, int64_t count, void* rows)>;

// Uploads `rows` rows of `row_bytes` each. A memory that takes no pieces gets them by upload().
void upload_rows(DeviceMemory& memory, void* to, int64_t rows, size_t row_bytes, const MakeRows& make,
                 ThreadPool& pool);

}  // namespace tachy
