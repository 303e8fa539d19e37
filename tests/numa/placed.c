/* placed VARIANT TOKENS [used]: how much of what an execution writes and reads lies in the memory of the node whose
   processor does it. Threads are bound; the caller's thread, on node 0 by itself, fills query, key and value. "used":
   the heap has memory that the caller had and gave back. numa.sh runs it on a machine with two nodes. */
#define _GNU_SOURCE
#include "cases.h"
#include "execute.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HEADS = 4, DIM = 32, AT_ONCE = 4096 };

/* ---- where rows lie ---- */

/* Rows that a thread of `node` writes or reads, looked up many at a time. */
typedef struct tally {
    void *row[AT_ONCE];
    int node[AT_ONCE];
    int64_t n, near, all;
} tally;

static void look_up(tally *t)
{
    static int where[AT_ONCE];
    if (t->n && syscall(SYS_move_pages, 0, (unsigned long)t->n, t->row, NULL, where, 0) == 0)
        for (int64_t i = 0; i < t->n; i++) t->near += where[i] == t->node[i], t->all++;
    t->n = 0;
}

static void add(tally *t, const void *row, int node)
{
    if (t->n == AT_ONCE) look_up(t);
    t->row[t->n] = (void *)((uintptr_t)row & ~(uintptr_t)4095), t->node[t->n++] = node;
}

static void say(const char *what, tally *t)
{
    look_up(t);
    if (t->all) printf(" %s %.1f %%", what, 100 * (double)t->near / (double)t->all);
}

/* ---- who writes and reads them ---- */

static struct {
    tally inner, out, read;
} count;

/* What stage s of node v writes, and its own query. */
static void count_row(const hga_plan *plan, const hga_workspace *ws, const hga_stage *s, hga_id v, int node)
{
    const bound_field *f = &ws->field[s->out];
    if (program_row(&plan->nodes, plan->program.field[s->out].rows, v))
        add(bound_is_io(f, v) ? &count.out : &count.inner, bound_row(f, v), node);
    if (s->query && bound_is_io(&ws->field[s->query], v)) add(&count.read, bound_row(&ws->field[s->query], v), node);
}

/* The caller's keys and values that a panel reads, each once. */
static int count_sources(const hga_plan *plan, const hga_workspace *ws, const hga_stage *s, hga_id first, hga_id n,
                         int node)
{
    hga_csr rows;
    if (s->relation < 0 || hga_graph_rows(plan->graph, s->relation, first, n, &rows)) return s->relation < 0;
    char *seen = calloc((size_t)plan->nodes.n, 1);
    for (hga_pos i = 0; seen && i < rows.ptr[n]; i++) {
        hga_id u = rows.src[i], of[] = {s->key, s->value};
        for (int k = 0; k < 2 && !seen[u]; k++)
            if (of[k] && bound_is_io(&ws->field[of[k]], u)) add(&count.read, bound_row(&ws->field[of[k]], u), node);
        seen[u] = 1;
    }
    int good = seen != NULL;
    free(seen), hga_csr_clear(&rows);
    return good;
}

static int count_panel(const hga_plan *plan, const hga_workspace *ws, const wave_item *item, int node)
{
    const phase *ph = &plan->phase[item->phase];
    if (ph->job != JOB_ROWS || item->head_part) return 1;
    hga_id first = ph->first + item->panel * ph->panel, end = ph->first + ph->n;
    if (end - first > ph->panel) end = first + ph->panel;
    for (hga_id s = ph->stage; s < stages_end(ph); s++) {
        const hga_stage *stage = &plan->program.stage[s];
        if (!stage->out) continue;
        for (hga_id at = first; at < end; at++)
            count_row(plan, ws, stage, ph->by_position ? node_at(&plan->stage[s], at) : at, node);
        if (!ph->by_position && !count_sources(plan, ws, stage, first, end - first, node)) return 0;
    }
    return 1;
}

/* The lists of the threads, wave by wave: what a thread has, it computed. */
static int count_all(const hga_plan *plan, const hga_workspace *ws)
{
    const wave_order *w = &plan->waves;
    for (int64_t list = 0; list < (int64_t)w->n * plan->threads; list++) {
        hga_id thread = w->alone ? 0 : (hga_id)(list % plan->threads);
        int node = topology_domain_at(plan->machine, plan->domain[thread]).number;
        for (int64_t i = w->ptr[list]; i < w->ptr[list + 1]; i++)
            if (!count_panel(plan, ws, &w->item[i], node)) return 0;
    }
    return 1;
}

/* ---- the run ---- */

/* The compiler must believe that somebody reads a block. */
static void keep(void *block) { __asm__ volatile("" : : "r"(block) : "memory"); }

/* What an application leaves: blocks that were written and freed, from a heap that keeps them. */
static void use_heap(void)
{
    enum { BLOCKS = 64, BYTES = 1 << 20 };
    void *block[BLOCKS], *large = malloc(30 << 20); /* once freed, so much is taken from the heap from then on */
    if (large) memset(large, 1, 30 << 20);
    keep(large);
    free(large);
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = malloc(BYTES);
        if (block[i]) memset(block[i], 1, BYTES);
        keep(block[i]);
    }
    for (int i = 0; i < BLOCKS - 1; i++) free(block[i]); /* the last one keeps the heap's end where it is */
}

static cpu_set_t everywhere;

/* The caller's thread has memory of its own from node 0. */
static void stay_at_home(void)
{
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof first, &first);
}
static void go_everywhere(void) { sched_setaffinity(0, sizeof everywhere, &everywhere); }

static hga_tensor fresh(const hga_plan *plan, hga_binding of, int filled)
{
    hga_id field = hga_program_field(&plan->program, of), first;
    hga_id rows = field ? range_of_rows(plan, plan->program.field[field].io, &first) : 0;
    int64_t n = (int64_t)rows * HEADS * DIM;
    float *x = n ? mmap(NULL, (size_t)n * sizeof *x, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
    if (x == MAP_FAILED) exit(bench_complain("memory", HGA_ENOMEM));
    for (int64_t i = 0; filled && i < n; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
    return (hga_tensor){.data = x, .rows = rows};
}

static uint64_t hash_of(const hga_tensor *t)
{
    const unsigned char *c = t->data;
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < t->rows * HEADS * DIM * (int64_t)sizeof(float); i++)
        h = (h ^ c[i]) * UINT64_C(0x100000001b3);
    return h;
}

static hga_status run(const char *words, hga_id n)
{
    hga_status st;
    bench_case c = {0};
    hga_plan *plan = NULL;
    hga_workspace *ws = NULL;
    const hga_shape shape = {.n_heads = HEADS, .dim = DIM};
    HGA_TRY(bench_case_make(words, n, &c));
    HGA_TRY(hga_plan_create(c.graph, &c.program, &shape, &(hga_options){.bind = HGA_BIND_AUTO}, &plan));
    stay_at_home();
    HGA_TRY(hga_workspace_create(plan, &ws));
    hga_io io = {.query = fresh(plan, HGA_IO_QUERY, 1), .key = fresh(plan, HGA_IO_KEY, 1)};
    io.value = fresh(plan, HGA_IO_VALUE, 1), io.out = fresh(plan, HGA_IO_OUT, 0);
    go_everywhere();
    HGA_TRY(hga_plan_execute(plan, ws, &io));
    if (!count_all(plan, ws)) HGA_TRY(HGA_ENOMEM);
    printf("%-20s %d threads, %d nodes; written near:", words, (int)hga_plan_threads(plan),
           (int)topology_domains(plan->machine));
    say("workspace", &count.inner), say("output", &count.out);
    printf("; the caller's, read near:"), say("as filled", &count.read);
    const hga_tensor *of[] = {&io.query, &io.key, &io.value};
    for (int i = 0; i < 3; i++)
        if (of[i]->rows) HGA_TRY(hga_plan_touch(plan, (hga_binding)(HGA_IO_QUERY + i), of[i]));
    memset(&count, 0, sizeof count);
    if (!count_all(plan, ws)) HGA_TRY(HGA_ENOMEM);
    say("touched", &count.read);
    printf("; bits %016llx\n", (unsigned long long)hash_of(&io.out));
done:
    hga_workspace_destroy(ws), hga_plan_destroy(plan), bench_case_clear(&c);
    return st;
}

int main(int n_words, char **word)
{
    if (n_words < 3) return fprintf(stderr, "placed VARIANT TOKENS [used]\n"), 2;
    sched_getaffinity(0, sizeof everywhere, &everywhere);
    if (n_words > 3) stay_at_home(), use_heap(), go_everywhere();
    hga_status st = run(word[1], (hga_id)atoi(word[2]));
    return st ? bench_complain(word[1], st) : 0;
}
