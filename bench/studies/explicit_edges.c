/* explicit_edges.c: time and memory of making a graph of random edges that are passed one by one: as they are, with
   types, or with types and weights; in an array or call by call. Run it once per case: the peak of memory is the
   process's. */
#include <hga.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct input_edges {
    hga_id nodes;
    int64_t n;
    hga_id *src, *dst;
    int32_t *type; /* NULL: none */
    float *weight; /* NULL: none */
} input_edges;

static uint64_t state = 1;

/* splitmix64 */
static uint64_t draw(void)
{
    uint64_t x = state += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static void stop(const char *what)
{
    fprintf(stderr, "explicit_edges: %s\n", what);
    exit(1);
}

static void *allocate(int64_t n, size_t size)
{
    void *p = malloc((size_t)n * size);
    if (!p) stop("no memory");
    return p;
}

static input_edges draw_edges(hga_id nodes, int64_t n, int typed, int weighted)
{
    input_edges e = {nodes, n, allocate(n, sizeof *e.src), allocate(n, sizeof *e.dst), NULL, NULL};
    if (typed) e.type = allocate(n, sizeof *e.type);
    if (weighted) e.weight = allocate(n, sizeof *e.weight);
    for (int64_t i = 0; i < n; i++) {
        e.src[i] = (hga_id)(draw() % (uint64_t)nodes), e.dst[i] = (hga_id)(draw() % (uint64_t)nodes);
        if (typed) e.type[i] = (int32_t)(draw() % 8);
        if (weighted) e.weight[i] = (float)(draw() % 1000 + 1) / 8;
    }
    return e;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double peak_megabytes(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1024;
}

static void hold(hga_status st)
{
    if (st) stop(hga_error_detail());
}

/* Passes the relation's edges, in the array or one call each; sums up weights if there are any. */
static hga_builder *collect(const input_edges *e, int one_by_one)
{
    hga_builder *b;
    hga_id near;
    hold(hga_builder_create(NULL, &b));
    hold(hga_builder_add_level(b, e->nodes, NULL));
    hold(hga_builder_add_relation(b, "near", &near));
    if (e->weight) hold(hga_builder_sum_edges(b, near));
    if (!one_by_one) hold(hga_builder_add_edges(b, near, e->n, e->src, e->dst, e->type, e->weight));
    for (int64_t i = 0; one_by_one && i < e->n; i++)
        hold(hga_builder_add_edge(b, near, e->src[i], e->dst[i], e->type ? e->type[i] : 0,
                                  e->weight ? e->weight[i] : 1));
    return b;
}

static uint64_t mix(uint64_t sum, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) sum = (sum ^ ((const unsigned char *)from)[i]) * 0x100000001b3;
    return sum;
}

/* FNV-1a of the rows as they are stored. */
static uint64_t checksum(const hga_graph *g)
{
    hga_relation r = hga_graph_relation(g, 0);
    hga_id n = hga_graph_nodes(g).n;
    size_t edges = (size_t)r.n_edges;
    uint64_t sum = mix(mix(0xcbf29ce484222325, r.ptr, ((size_t)n + 1) * sizeof *r.ptr), r.src, edges * sizeof *r.src);
    if (r.type) sum = mix(sum, r.type, edges * sizeof *r.type);
    return r.weight ? mix(sum, r.weight, edges * sizeof *r.weight) : sum;
}

int main(int argc, char **argv)
{
    static const char *const cases[] = {"untyped", "typed", "weighted"};
    int which = 0, one_by_one = argc == 5 && !strcmp(argv[4], "calls");
    if (argc < 4) stop("NODES EDGES untyped|typed|weighted [calls]");
    while (which < 3 && strcmp(argv[3], cases[which]) != 0) which++;
    hga_id nodes = (hga_id)atoi(argv[1]);
    int64_t n = atoll(argv[2]);
    if (which == 3 || nodes < 1 || n < 1) stop("NODES EDGES untyped|typed|weighted [calls]");
    input_edges e = draw_edges(nodes, n, which > 0, which > 1);
    double before = peak_megabytes(), begin = seconds();
    hga_builder *b = collect(&e, one_by_one);
    double collected = seconds();
    hga_graph *g;
    hold(hga_builder_finish(b, &g));
    double end = seconds();
    printf("%s%s: %.3f s to collect, %.3f s to finish; %.0f MB above the caller's; %016" PRIx64 "\n", cases[which],
           one_by_one ? ", call by call" : "", collected - begin, end - collected, peak_megabytes() - before,
           checksum(g));
    hga_graph_destroy(g);
    hga_builder_destroy(b);
    free(e.src), free(e.dst), free(e.type), free(e.weight);
    return 0;
}
