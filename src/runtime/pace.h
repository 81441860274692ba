// Lets a run stop soon after it is told to, even in a long step, by checks between pieces of work. Work that
// is queued on a GPU cannot be taken back, so the host must not be far ahead of it, and no kernel may be
// long. TACHY_PACE=off queues all work at once and undivided, and captures steps however long they are; this
// shows what the checks cost.
#pragma once

#include "tensor/stream.h"

namespace tachy::runtime {

bool paced();  // false if TACHY_PACE is off

// Throws `cancelled` if the run was told to stop. If the host is more than about 0.1 s ahead of a GPU, it
// waits first.
void checkpoint(const Stream& stream);

// Returns how many heads of an attention to queue at a time; `flops` is the multiply-adds (times two) of all
// heads. On a GPU these take about 0.12 s by an estimate, elsewhere it is all heads. The result depends only
// on the arguments and the kind of GPU.
int64_t heads_at_a_time(const Stream& stream, int64_t heads, double flops);

// Returns how many rows of a feed-forward to compute at a time, in pieces of about equal size. The limit is
// what keeps its wide activations small compared with the rest (32768 rows on a GPU, 8192 elsewhere), or
// `free_rows`, whose memory costs nothing.
int64_t rows_at_a_time(const Stream& stream, int64_t rows, int64_t free_rows);

}  // namespace tachy::runtime
