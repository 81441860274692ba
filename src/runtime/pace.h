// Makes a run stop soon after it was told to, however large its step, by checks between pieces of a stage's
// work. Work that is queued on a GPU cannot be taken back, so the host must not be far ahead of it, and no
// single kernel may be long. TACHY_PACE=off queues everything at once and whole, and captures steps however
// long they are; with it one can measure what the checks cost.
#pragma once

#include "tensor/stream.h"

namespace tachy::runtime {

bool paced();  // TACHY_PACE does not say off

// Throws `cancelled` if the run was told to stop. On a GPU it first waits if the host is
// more than about 0.1 s ahead.
void checkpoint(const Stream& stream);

// How many heads of an attention to queue at a time, given the multiply-adds (times two) of all of them. On a
// GPU it is as many as are computed in about 0.12 s, as far as that can be known beforehand; elsewhere it is
// all. It depends only on the arguments and the kind of GPU.
int64_t heads_at_a_time(const Stream& stream, int64_t heads, double flops);

// How many of a feed-forward's rows are computed at a time: in about equal pieces of at most the size that
// keeps its wide activations small compared with the rest (32768 rows on a GPU, 8192 elsewhere), or of
// `free_rows`, whose memory costs nothing.
int64_t rows_at_a_time(const Stream& stream, int64_t rows, int64_t free_rows);

}  // namespace tachy::runtime
