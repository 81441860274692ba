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

// Returns how many heads a call of attention should have so that its results do not depend on how many heads a rank
// has, or on the size of the batch: kernels cut the last units of a call's work along the keys. It is an odd part of
// the heads, or a few of them together, and 0 if so few make no long call, where more calls would cost time. It is
// 0 on a CPU, too, and otherwise depends on the arguments alone. `flops` is that of one head of one sample.
int64_t heads_a_call(const Stream& stream, int64_t heads, double flops);
// The same wherever it runs.
int64_t heads_of_a_long_call(int64_t heads, double flops);

// Returns in how many groups a rank's heads travel to it, so that attention to one runs under the travel of the next.
// Short calls hide nothing.
int64_t groups_of_heads(const Stream& stream, int64_t heads, double flops);
// Says whether the copy engines also carry the parts of such groups that stay on their card: with TACHY_RANK_OWN=beside,
// to compare.
bool own_parts_beside();

// Returns how many rows of a feed-forward to compute at a time, in pieces of about equal size. The limit is
// what keeps its wide activations small compared with the rest (32768 rows on a GPU, 8192 elsewhere), or
// `free_rows`, whose memory costs nothing.
int64_t rows_at_a_time(const Stream& stream, int64_t rows, int64_t free_rows);

}  // namespace tachy::runtime
