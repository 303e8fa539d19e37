/* hga_exchange.h: how ranks of a distributed run talk. The engine knows ranks, channels and messages, and nothing of
   what carries them: an hga_exchange is one rank's end of a transport, which hga_dist.h or you bring. */
#ifndef HGA_EXCHANGE_H
#define HGA_EXCHANGE_H

#include "hga_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* On this channel ranks tell their neighbours what they are called for, some bytes a call; rows go by later ones. */
enum { HGA_CHANNEL_OF_CALLS = 0 };

/* Bytes to or from another rank. The caller's memory, which the transport has from `start` to the end of `wait`, or
   until a call returns that some rank has failed: it may be freed then. */
typedef struct hga_packet {
    hga_id rank;
    int64_t bytes;
    void *data;
} hga_packet;

/* One rank's end. One thread of the rank calls at a time. Every function but `fail` and `close` returns HGA_OK, or why
   not, with hga_error_detail(). */
typedef struct hga_exchange {
    size_t size; /* sizeof(hga_exchange) */
    hga_id rank, n_ranks;
    void *ctx; /* what the functions are given */
    /* Begins to send and to receive, and returns at once. On one channel the k-th start of a rank meets the k-th of
       every other: of the messages between two ranks in these the first that is sent goes to the first that is
       received, and has as many bytes. A channel is begun again after its `wait`; different channels (0 and more) may
       be under way together. */
    hga_status (*start)(void *ctx, int channel, const hga_packet *send, hga_id n_send, const hga_packet *receive,
                        hga_id n_receive);
    /* *done: 1 once `wait` would return at once. */
    hga_status (*test)(void *ctx, int channel, int *done);
    /* Returns when all that the channel receives has arrived, and what it sends may be written to. */
    hga_status (*wait)(void *ctx, int channel);
    /* Every rank's `bytes` bytes to every rank, by rank: all is [n_ranks][bytes], and `mine` lies outside of it. All
       ranks call it with as many bytes. */
    hga_status (*gather)(void *ctx, const void *mine, int64_t bytes, void *all);
    /* This rank has failed: every other rank's pending and later calls return this status, so that none waits for what
       does not come. May be called more than once. */
    void (*fail)(void *ctx, hga_status status);
    void (*close)(void *ctx); /* gives back what the end holds; see hga_dist_destroy */
} hga_exchange;

#ifdef __cplusplus
}
#endif
#endif
