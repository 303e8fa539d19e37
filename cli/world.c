/* world.c: the ranks of a command. MPI is started only where a launcher says that there are several, since starting
   it takes longer than most commands. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <omp.h>

#include "complain.h"
#include "hga_mpi.h"

/* What a rank sends the others at an agreement. */
typedef struct word {
    int status, parts; /* parts: it is the rank's last */
    char command[24], complaint[1000];
} word;

/* The process's, as its standard output is. */
static struct world {
    hga_exchange talk, call;
    int outcome; /* of the agreements until now */
    word mine;
} world;

hga_id world_ranks(void) { return world.talk.ctx ? world.talk.n_ranks : 1; }
hga_id world_rank(void) { return world.talk.ctx ? world.talk.rank : 0; }
int world_speaks(void) { return world_rank() == 0; }
const hga_exchange *world_exchange(void) { return &world.call; }

/* ---- the launcher's variables ---- */

/* Finds how many processes there are, and which this one is: by Open MPI's mpirun, or MPICH's, Intel's or Slurm's. */
static int launched(int *rank)
{
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *size = getenv(names[i][0]), *at = getenv(names[i][1]);
        if (!size || !at) continue;
        *rank = atoi(at);
        return atoi(size);
    }
    *rank = 0;
    return 1;
}

/* How many of the ranks are on this machine. */
static int launched_here(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *size = getenv(names[i]);
        if (size && atoi(size) > 0) return atoi(size);
    }
    return 1;
}

hga_id world_threads(hga_id typed)
{
    if (typed || world_ranks() == 1 || getenv("OMP_NUM_THREADS")) return typed;
    int all = (int)sysconf(_SC_NPROCESSORS_ONLN), mine = omp_get_num_procs();
    if (mine < all) return 0; /* the launcher has divided them */
    return mine > launched_here() ? mine / launched_here() : 1;
}

/* Before the ranks can agree on anything, the launcher's rank 0 complains for all. The others exit with 0, since a
   launcher that sees one fail ends all, perhaps before the complaint is printed. */
static int refuse(int rank, int status, const char *text)
{
    if (rank) exit(CLI_GOOD);
    return complain(status, "%s", text);
}

/* Opens two exchanges among all ranks: one for the command itself, one for calls of the library. */
static int meet(int n, int rank)
{
    char text[200];
    hga_status st = hga_dist_mpi_world(&world.talk);
    if (!st && world.talk.n_ranks != n) {
        snprintf(text, sizeof text,
                 "mpirun has started %d processes, of which the MPI of this hga sees %d: it is another one", n,
                 world.talk.n_ranks);
        return refuse(rank, CLI_USAGE, text);
    }
    if (!st) st = hga_dist_mpi_world(&world.call);
    return st ? refuse(rank, st == HGA_EUNSUPPORTED ? CLI_USAGE : CLI_OUTSIDE, hga_error_detail()) : CLI_GOOD;
}

/* --help ends the process at once, and other ranks may not have it among their arguments. */
static void part(void)
{
    if (world.talk.fail && !world.mine.parts) world.talk.fail(world.talk.ctx, hga_fail(HGA_EEXTERNAL, "it has ended"));
    hga_dist_destroy(&world.call);
    hga_dist_destroy(&world.talk);
}

/* Starts MPI only under a launcher; complaints are kept until ranks agree whose is printed. */
int world_open(const char *command)
{
    int rank, n = launched(&rank), status = CLI_GOOD;
    snprintf(world.mine.command, sizeof world.mine.command, "%s", command);
    if (n < 2) return CLI_GOOD;
    TRY(meet(n, rank));
    atexit(part);
    complain_keep(world.mine.complaint, sizeof world.mine.complaint);
    if (!world_speaks() && !freopen("/dev/null", "w", stdout)) TRY(complain(CLI_OUTSIDE, "/dev/null cannot be opened"));
done:
    if (status) part();
    return status;
}

/* ---- agreement ---- */

/* mpirun may start a program with other arguments on each rank. */
static int check_words(const word *words)
{
    for (hga_id r = 1; r < world_ranks(); r++) {
        const word *a = &words[0], *b = &words[r];
        if (strcmp(a->command, b->command) == 0 && a->parts == b->parts) continue;
        complain_keep(NULL, 0);
        if (!world_speaks()) return CLI_USAGE;
        if (a->parts != b->parts)
            return complain(CLI_USAGE, "ranks are called for different things: rank %d has ended, and rank %d has not",
                            a->parts ? 0 : r, a->parts ? r : 0);
        return complain(CLI_USAGE, "ranks are called for different things: rank 0 for '%s', rank %d for '%s'",
                        a->command, r, b->command);
    }
    return CLI_GOOD;
}

/* The status of the lowest rank that has one; rank 0 prints its complaint, or the next one's. */
static int settle(const word *words)
{
    const word *first = NULL, *says = NULL;
    for (hga_id r = 0; r < world_ranks(); r++) {
        if (words[r].status && !first) first = &words[r];
        if (words[r].status && words[r].complaint[0] && !says) says = &words[r];
    }
    if (!first) return check_words(words);
    complain_keep(NULL, 0);
    if (says && world_speaks()) complain(first->status, "%s", says->complaint);
    return first->status;
}

int world_gather(const void *mine, int64_t bytes, void *all)
{
    if (world_ranks() > 1) return complain_of(world.talk.gather(world.talk.ctx, mine, bytes, all), CLI_OUTSIDE, "MPI");
    memcpy(all, mine, (size_t)bytes);
    return CLI_GOOD;
}

/* Once a status is not good, ranks gather no more: the outcome stays. */
int world_agree(int status)
{
    word *all = NULL;
    if (world_ranks() == 1) return status;
    if (world.outcome) return world.outcome;
    world.mine.status = status;
    if (take(world_ranks(), sizeof *all, &all)) return CLI_OUTSIDE;
    world.outcome = world_gather(&world.mine, sizeof world.mine, all);
    if (world.outcome)
        complain_keep(NULL, 0); /* the ranks do not reach each other */
    else
        world.outcome = settle(all);
    free(all);
    return world.outcome;
}

int world_close(int status)
{
    world.mine.parts = 1;
    status = world_agree(status);
    part();
    return status;
}
