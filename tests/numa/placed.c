/* placed VARIANT TOKENS [used] [updated | grown]: how much of what an execution writes and reads lies in the memory of
   the node whose processor does it. Threads are bound; the caller's thread, on node 0 by itself, fills query, key and
   value. "used": the heap has memory that the caller had and gave back. "updated": the plan has executed, and then has
   other edges; "grown": it had half as many tokens, and a workspace for these. VARIANT is bench_case_make's, or
   "chosen", blocks that blocks of queries chose, or "leaves", a Treeformer: both choose anew for an update. numa.sh
   runs it on a machine with two nodes. */
#define _GNU_SOURCE
#include "cases.h"
#include "numbers.h"
#include "owners.h"
#include "plan.h"
#include "tally.h"
#include "workspace.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HEADS = 4, DIM = 32 };

/* ---- who writes and reads them ---- */

static struct {
    tally inner, out, read;
    int64_t reads, owned; /* rows of the caller's that are read, and those of them that the reader's node owns */
} count;

/* The node of the thread that owns each of the caller's rows, -1: nobody's. */
static int *owner;

static hga_status find_owners(const hga_plan *plan)
{
    hga_id f = program_bound(&plan->program, HGA_IO_QUERY), first, end;
    const field_storage *h = &plan->fields.storage[f];
    owner = malloc((size_t)plan->nodes.n * sizeof *owner);
    if (!owner) return HGA_ENOMEM;
    memset(owner, -1, (size_t)plan->nodes.n * sizeof *owner);
    for (hga_id t = 0; t < plan->team.n; t++)
        for (hga_id l = 0; l < plan->nodes.n_levels; l++)
            if (owned_of_level(plan, t, l, h->io_first, h->io_n, &first, &end))
                for (hga_id i = first; i < end; i++)
                    owner[h->io_first + i] = topology_domain_at(plan->machine.topology, plan->team.domain[t]).number;
    return HGA_OK;
}

static void add_read(const bound_field *f, hga_id v, int node)
{
    if (!f->io.n || !bound_is_io(f, v)) return;
    add(&count.read, bound_row(f, v), node);
    count.reads++, count.owned += owner[v] == node;
}

/* What stage s of node v writes, and its own query. */
static void count_row(const hga_plan *plan, const hga_workspace *ws, const hga_stage *s, hga_id v, int node)
{
    const bound_field *f = &ws->field[s->out];
    if (program_row(&plan->nodes, plan->program.field[s->out].rows, v))
        add(bound_is_io(f, v) ? &count.out : &count.inner, bound_row(f, v), node);
    if (s->query) add_read(&ws->field[s->query], v, node);
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
            if (of[k]) add_read(&ws->field[of[k]], u, node);
        seen[u] = 1;
    }
    int good = seen != NULL;
    free(seen), hga_csr_clear(&rows);
    return good;
}

static int count_panel(const hga_plan *plan, const hga_workspace *ws, const wave_item *item, int node)
{
    const phase *ph = &plan->phases.list[item->phase];
    if (ph->job != JOB_ROWS || item->head_range) return 1;
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
    for (int64_t list = 0; list < (int64_t)w->n * plan->team.n; list++) {
        hga_id thread = w->alone ? 0 : (hga_id)(list % plan->team.n);
        int node = topology_domain_at(plan->machine.topology, plan->team.domain[thread]).number;
        for (int64_t i = w->ptr[list]; i < w->ptr[list + 1]; i++)
            if (!count_panel(plan, ws, &w->item[i], node)) return 0;
    }
    return 1;
}

/* ---- the run ---- */

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

/* ---- graphs ---- */

enum { BLOCK = 64, NEAR = 3, FAR = 1, SLOTS = NEAR + FAR, LEAVES = 32, STREAM = 5 };

/* Each block of queries has its own block and its neighbours, as in `local`, and one that is drawn. */
static hga_status make_chosen(hga_id n, uint64_t version, bench_case *c)
{
    hga_id blocks = n / BLOCK;
    float *drawn = malloc((size_t)blocks * sizeof *drawn);
    int32_t *choice = malloc((size_t)blocks * SLOTS * sizeof *choice);
    hga_status st = drawn && choice ? HGA_OK : HGA_ENOMEM;
    if (!st) numbers_fill(STREAM + version, 1, blocks, drawn);
    for (hga_id b = 0; !st && b < blocks; b++) {
        hga_id first = b == 0            ? 0
                       : b == blocks - 1 ? b - 2
                                         : b - 1,
               other = (hga_id)((drawn[b] + 1) / 2 * (float)(blocks - NEAR));
        int32_t *to = choice + (ptrdiff_t)b * SLOTS, before = other < first;
        if (!before) other += NEAR;
        if (before) *to++ = other;
        for (hga_id i = 0; i < NEAR; i++) *to++ = first + i;
        if (!before) *to = other;
    }
    hga_routed r = {
        .n_tokens = n, .block = BLOCK, .query_block = BLOCK, .n_choosers = 1, .slots = SLOTS, .choice = choice};
    if (!st) st = hga_build_routed(&r, &c->graph, &c->program);
    free(drawn), free(choice);
    return st;
}

static hga_status make_leaves(hga_id n, uint64_t version, bench_case *c)
{
    float *drawn = malloc((size_t)n * sizeof *drawn);
    int32_t *leaf = malloc((size_t)n * sizeof *leaf);
    hga_status st = drawn && leaf ? HGA_OK : HGA_ENOMEM;
    if (!st) numbers_fill(STREAM + version, 1, n, drawn);
    for (hga_id i = 0; !st && i < n; i++) leaf[i] = (int32_t)((drawn[i] + 1) / 2 * LEAVES) % LEAVES;
    hga_treeformer t = {.n_queries = n, .n_tree_heads = 1, .n_leaves = LEAVES, .query_leaf = leaf};
    if (!st) st = hga_build_treeformer_fine(&t, &c->graph, &c->program);
    free(drawn), free(leaf);
    return st;
}

static hga_status make(const char *words, hga_id n, uint64_t version, bench_case *c)
{
    if (strcmp(words, "chosen") == 0) return make_chosen(n, version, c);
    if (strcmp(words, "leaves") == 0) return make_leaves(n, version, c);
    return bench_case_make(words, n, c);
}

/* ---- the run ---- */

typedef enum change { NOT_CHANGED, UPDATED, GROWN } change;

static hga_io fresh_io(const hga_plan *plan)
{
    hga_io io = {.query = fresh(plan, HGA_IO_QUERY, 1), .key = fresh(plan, HGA_IO_KEY, 1)};
    io.value = fresh(plan, HGA_IO_VALUE, 1), io.out = fresh(plan, HGA_IO_OUT, 0);
    return io;
}

/* Other edges under the plan; a workspace that it has outgrown is made anew. */
static hga_status change_graph(const char *words, hga_id n, change how, hga_plan *plan, hga_workspace **ws, hga_io *io)
{
    hga_status st;
    bench_case other = {0};
    HGA_TRY(make(words, n, 1, &other));
    HGA_TRY(hga_plan_update(plan, other.graph));
    stay_at_home();
    if (how == GROWN) {
        hga_workspace_destroy(*ws);
        HGA_TRY(hga_workspace_create(plan, ws));
        *io = fresh_io(plan);
    }
    go_everywhere();
    HGA_TRY(hga_plan_execute(plan, *ws, io));
done:
    bench_case_clear(&other);
    return st;
}

static hga_status say_touched(const hga_plan *plan, const hga_workspace *ws, const hga_io *io)
{
    hga_status st = HGA_OK;
    const hga_tensor *of[] = {&io->query, &io->key, &io->value};
    for (int i = 0; i < 3; i++)
        if (of[i]->rows) HGA_TRY(hga_plan_touch(plan, (hga_binding)(HGA_IO_QUERY + i), of[i]));
    memset(&count, 0, sizeof count);
    if (!count_all(plan, ws)) HGA_TRY(HGA_ENOMEM);
    say("touched", &count.read);
    if (count.reads) printf(" of %.1f %% that are owned near", 100 * (double)count.owned / (double)count.reads);
    printf("; bits %016llx\n", (unsigned long long)hash_of(&io->out));
done:
    return st;
}

static hga_status run(const char *words, hga_id n, change how)
{
    hga_status st;
    bench_case c = {0};
    hga_plan *plan = NULL;
    hga_workspace *ws = NULL;
    const hga_shape shape = {.n_heads = HEADS, .dim = DIM};
    HGA_TRY(make(words, how == GROWN ? n / 2 : n, 0, &c));
    HGA_TRY(hga_plan_create(c.graph, &c.program, &shape, &(hga_options){.bind = HGA_BIND_AUTO}, &plan));
    stay_at_home();
    HGA_TRY(hga_workspace_create(plan, &ws));
    hga_io io = fresh_io(plan);
    go_everywhere();
    HGA_TRY(hga_plan_execute(plan, ws, &io));
    if (how != NOT_CHANGED) HGA_TRY(change_graph(words, n, how, plan, &ws, &io));
    HGA_TRY(find_owners(plan));
    if (!count_all(plan, ws)) HGA_TRY(HGA_ENOMEM);
    printf("%-20s %d threads, %d nodes; written near:", words, (int)hga_plan_threads(plan),
           (int)topology_domains(plan->machine.topology));
    say("workspace", &count.inner), say("output", &count.out);
    printf("; the caller's, read near:"), say("as filled", &count.read);
    HGA_TRY(say_touched(plan, ws, &io));
done:
    free(owner);
    hga_workspace_destroy(ws), hga_plan_destroy(plan), bench_case_clear(&c);
    return st;
}

int main(int n_words, char **word)
{
    if (n_words < 3) return fprintf(stderr, "placed VARIANT TOKENS [used] [updated | grown]\n"), 2;
    change how = NOT_CHANGED;
    int used = 0;
    for (int i = 3; i < n_words; i++) {
        used |= strcmp(word[i], "used") == 0;
        if (strcmp(word[i], "updated") == 0) how = UPDATED;
        if (strcmp(word[i], "grown") == 0) how = GROWN;
    }
    sched_getaffinity(0, sizeof everywhere, &everywhere);
    if (used) stay_at_home(), use_heap(), go_everywhere();
    hga_status st = run(word[1], (hga_id)atoi(word[2]), how);
    return st ? bench_complain(word[1], st) : 0;
}
