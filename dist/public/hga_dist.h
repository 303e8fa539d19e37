/* hga_dist.h: transports for hga_exchange. This library has one: ranks that are threads of one process, for tests, and
   to simulate the cost of a network. */
#ifndef HGA_DIST_H
#define HGA_DIST_H

#include "hga_exchange.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A simulated network. Zeros: no delay, no filling. */
typedef struct hga_dist_wire {
    double delay;      /* seconds from `start` until a message arrives */
    double most_delay; /* where it is more: each message takes between `delay` and this, by `seed` */
    uint64_t seed;
    int fill; /* 1: memory that receives holds NaN (bytes of ones) from `start` until the channel is whole */
    const hga_allocator *allocator; /* NULL: the C library's */
    uint64_t reserved[4];           /* 0 */
} hga_dist_wire;

/* The messages that a rank has sent and received by `start`, except on HGA_CHANNEL_OF_CALLS (gathers are counted
   separately: `bytes` for each other rank). */
typedef struct hga_dist_counts {
    int64_t messages_out, bytes_out, messages_in, bytes_in;
    int64_t gathers, bytes_gathered;
} hga_dist_counts;

/* Make n_ranks ends, xs[0 .. n_ranks - 1], for threads of this process, one thread per end. A message is copied when it
   starts, so that sending never blocks. wire NULL: no delay. HGA_EINVAL names what is wrong, HGA_ENOMEM leaves nothing
   behind. Destroy every end. */
HGA_API hga_status hga_dist_in_process(hga_id n_ranks, const hga_dist_wire *wire, hga_exchange *xs);
/* The number of messages and bytes that went through an end that hga_dist_in_process made. Any thread may call this,
   also while others use their ends. */
HGA_API hga_dist_counts hga_dist_in_process_counts(const hga_exchange *x);
/* Destroy an end of any transport, and zero it. NULL and zeroed ends are accepted. Calls of other ends that still wait
   for this one return HGA_EINVAL. */
HGA_API void hga_dist_destroy(hga_exchange *x);

#ifdef __cplusplus
}
#endif
#endif
