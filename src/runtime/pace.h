// Between pieces of a stage's work: what makes a run stop soon after it was told to, however large its step.
// What is queued on a GPU cannot be taken back, so the host may not be far ahead of it, and no single kernel
// may be long. TACHY_PACE=off queues everything at once and whole, and captures steps however long they are:
// to measure what this costs.
#pragma once

#include "tensor/stream.h"

namespace tachy::runtime {

bool paced();  // TACHY_PACE does not say off

// Throws cancelled when asked to. On a GPU it first waits where the host is more than about 0.1 s ahead.
void checkpoint(const Stream& stream);

// Of how many heads attention is to be queued at a time, given the multiply-adds (times two) of all of them:
// on a GPU as many as it computes in about 0.12 s, as far as that is known beforehand; elsewhere all. Follows
// from its arguments and the kind of GPU alone.
int64_t heads_at_a_time(const Stream& stream, int64_t heads, double flops);

// How many of a feed-forward's rows are computed at a time: about equal pieces of at most what keeps its wide
// activations small beside the rest (32768 rows on a GPU, 8192 elsewhere), or of `free_rows`, whose memory
// costs nothing.
int64_t rows_at_a_time(const Stream& stream, int64_t rows, int64_t free_rows);

}  // namespace tachy::runtime
