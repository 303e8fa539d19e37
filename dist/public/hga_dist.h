/* hga_dist.h: transports for hga_exchange. This library has one: ranks that are threads of one process, for tests, and
   to try what a wire would cost. */
#ifndef HGA_DIST_H
#define HGA_DIST_H

#include "hga_exchange.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A wire that is slower than memory, and stricter. Zeros: neither. */
typedef struct hga_dist_wire {
    double delay;      /* seconds from `start` until a message arrives */
    double most_delay; /* where it is more: each message takes between `delay` and this, by `seed` */
    uint64_t seed;
    int fill; /* 1: memory that receives holds NaN (bytes of ones) from `start` until the channel is whole */
    const hga_allocator *allocator; /* NULL: the C library's */
    uint64_t reserved[4];           /* 0 */
} hga_dist_wire;

/* What a rank has sent and received by `start`, but on HGA_CHANNEL_OF_CALLS (a gather is counted apart: `bytes` of it
   for each other rank). */
typedef struct hga_dist_counts {
    int64_t messages_out, bytes_out, messages_in, bytes_in;
    int64_t gathers, bytes_gathered;
} hga_dist_counts;

/* Make n_ranks ends, xs[0 .. n_ranks - 1], which threads of this process use, one thread an end. A message is copied
   when it starts, so that no rank waits to send. wire NULL: no delay. HGA_EINVAL names what is wrong, HGA_ENOMEM leaves
   nothing behind. Destroy every end. */
HGA_API hga_status hga_dist_in_process(hga_id n_ranks, const hga_dist_wire *wire, hga_exchange *xs);
/* How many messages and bytes went through an end that hga_dist_in_process made; any thread may ask, also while others
   use theirs. */
HGA_API hga_dist_counts hga_dist_in_process_counts(const hga_exchange *x);
/* Free what an end of any transport holds, and zero it. NULL and zeroed ends are accepted. Calls of other ends that
   still wait for this one return HGA_EINVAL. */
HGA_API void hga_dist_destroy(hga_exchange *x);

#ifdef __cplusplus
}
#endif
#endif
