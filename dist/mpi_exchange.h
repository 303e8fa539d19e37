/* mpi_exchange.h: what an exchange by MPI holds. Only mpi.c includes this, after mpi.h. */
#ifndef DIST_MPI_EXCHANGE_H
#define DIST_MPI_EXCHANGE_H

#include "hga_mpi.h"

/* Counts of MPI are ints: longer messages are split. */
#ifndef LONGEST_MESSAGE
#define LONGEST_MESSAGE ((int64_t)1 << 30)
#endif

/* MPI guarantees tags up to 32767. */
enum { MOST_CHANNELS = 32000, GATHER = MOST_CHANNELS, TAG_OF_NOTICE, N_CHANNELS_AT_FIRST = 8 };

/* The message that a failing rank sends to all others. */
typedef struct notice {
    hga_status status;
    int rank;
    char text[504];
} notice;

/* The other rank of a request, the expected number of bytes, the buffer that receives them and their destination. */
typedef struct peer {
    hga_id rank;
    int64_t bytes;
    char *copy, *data;
} peer;

/* The pending requests of one exchange, receives first. */
typedef struct channel {
    MPI_Request *request;
    peer *peer;
    char *copy;                /* of all messages, concatenated */
    int64_t capacity[3], used; /* of the arrays; bytes used of the copies */
    int n, n_receives, n_done;
} channel;

typedef struct mpi_exchange {
    MPI_Comm comm;
    hga_id rank, n_ranks;
    int starts_mpi, any_thread;
    channel *channel; /* [n_channels]; the gather's is separate */
    int64_t n_channels;
    channel gather;
    int failed;
    notice failure, arriving; /* the failure that this rank knows; the receive buffer of notices */
    MPI_Request awaits_notice;
    MPI_Request *tells; /* [n_ranks], the requests of the notices that this rank sends */
    int64_t *sent, *got,
        *due; /* [n_ranks], messages sent to and received from each rank; at the end, how many that rank has sent */
} mpi_exchange;

#endif
