/* placed_tokens VARIANT TOKENS [used]: as `placed`, of a decoder that has had a prompt of all tokens but 64 and takes
   these one by one: where the rows lie that an append leaves in the cache, and those of earlier tokens that its rows
   read. What the caller's thread copies counts for its node; what stages do counts for the node of the thread that has
   their item. The caller's thread is on node 0: by OpenMP's binding, or by itself. */
#define _GNU_SOURCE
#include "cases.h"
#include "execution.h"
#include "plan.h"
#include "slice_run.h"
#include "stage_rows.h"
#include "tally.h"

#include <sched.h>

enum { HEADS = 4, DIM = 32, ONE_BY_ONE = 64 };

static struct {
    tally kept, read;
    int64_t alone, tokens; /* appends that the caller's thread made by itself, of so many */
} count;

static int my_node(void)
{
    unsigned cpu, node = 0;
    syscall(SYS_getcpu, &cpu, &node, NULL);
    return (int)node;
}

/* ---- what a token keeps and reads ---- */

/* Its rows in pages, which the caller's thread writes. */
static void count_kept(const hga_decoder *d, const hga_cache *c, int node)
{
    hga_id token = c->tokens - 1;
    for (int64_t i = d->born.ptr[token]; i < d->born.ptr[token + 1]; i++) {
        const cached_row *r = &d->born.row[i];
        const page_entry *e = table_find(&c->table, page_key(d, r->kind, r->node));
        if (e && is_cached(d, r, token + 1)) add(&count.kept, page_row(d, e->page, r->node), node);
    }
}

/* A source's keys and values, where it still has them. */
static void count_source(const hga_decode_workspace *w, const hga_stage *s, hga_id u, int node)
{
    const hga_id of[] = {s->key, s->value};
    for (int k = 0; k < 2; k++)
        if (of[k] && w->workspace->slots.of[of[k]].slot[u])
            add(&count.read, workspace_input_row(w->workspace, of[k], u), node);
}

/* Of the rows of an item that the append ran. */
static int count_item(const hga_decode_workspace *w, const wave_item *item, int node)
{
    const hga_plan *plan = w->decoder->plan;
    const phase *ph = &plan->phases.list[item->phase];
    const hga_stage *s = &plan->program.stage[ph->stage];
    hga_id first = ph->first + item->panel * ph->panel, end = ph->first + ph->n;
    if (end - first > ph->panel) end = first + ph->panel;
    if (ph->job != JOB_ROWS || s->relation < 0 || item->head_range) return 1;
    for (hga_id at = first; at < end; at++) {
        hga_csr rows;
        if (!bits_have(slice_rows(&w->workspace->sliced.slice, ph, ph->stage), at - ph->first)) continue;
        if (hga_graph_rows(plan->graph, s->relation, at, 1, &rows)) return 0;
        for (hga_pos i = 0; i < rows.ptr[1]; i++) count_source(w, s, rows.src[i], node);
        hga_csr_clear(&rows);
    }
    return 1;
}

static int count_token(const hga_decode_workspace *w, const hga_cache *c)
{
    const hga_plan *plan = w->decoder->plan;
    const wave_order *x = &plan->waves;
    int here = my_node(), alone = x->alone || execution_is_alone(plan) || slice_is_for_one(plan, w->workspace);
    count.alone += alone, count.tokens++;
    count_kept(w->decoder, c, here);
    for (int64_t list = 0; list < (int64_t)x->n * plan->team.n; list++) {
        int node = topology_domain_at(plan->machine.topology, plan->team.domain[list % plan->team.n]).number;
        for (int64_t i = x->ptr[list]; i < x->ptr[list + 1]; i++)
            if (bits_have(&w->workspace->sliced.slice.items, i) && !count_item(w, &x->item[i], alone ? here : node))
                return 0;
    }
    look_up(&count.kept), look_up(&count.read); /* before the rows move */
    return 1;
}

/* ---- the run ---- */

static float *numbers(hga_id rows)
{
    float *x = malloc((size_t)rows * HEADS * DIM * sizeof *x);
    for (int64_t i = 0; x && i < (int64_t)rows * HEADS * DIM; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
    return x;
}

static hga_status append(hga_decode_workspace *w, hga_cache *c, float *x, float *out, hga_id n)
{
    hga_id rows = hga_decoder_rows(w->decoder, hga_cache_tokens(c), n, NULL, 0);
    hga_append a = {.cache = c, .n_tokens = n};
    a.io.query = a.io.key = a.io.value = (hga_tensor){.data = x, .rows = rows};
    a.io.out = (hga_tensor){.data = out, .rows = rows};
    return hga_decoder_append(w->decoder, w, &a, 1);
}

static hga_status feed(hga_decode_workspace *w, hga_cache *c, hga_id n)
{
    hga_status st;
    hga_id most = hga_decoder_rows(w->decoder, 0, n, NULL, 0);
    float *x = numbers(most), *out = numbers(most);
    if (!x || !out) return HGA_ENOMEM;
    HGA_TRY(append(w, c, x, NULL, n - ONE_BY_ONE)); /* whose rows of the output nobody asks for */
    while (hga_cache_tokens(c) < n) {
        HGA_TRY(append(w, c, x, out, 1));
        if (!count_token(w, c)) HGA_TRY(HGA_ENOMEM);
    }
done:
    free(x), free(out);
    return st;
}

static hga_status run(const char *words, hga_id n)
{
    hga_status st;
    bench_case c = {0};
    hga_decoder *d = NULL;
    hga_decode_workspace *w = NULL;
    hga_pages *pages = NULL;
    hga_cache *cache = NULL;
    const hga_decode_options options = {.plan = {.bind = HGA_BIND_AUTO}};
    HGA_TRY(bench_case_make(words, n, &c));
    HGA_TRY(hga_decoder_create(c.graph, &c.program, &(hga_shape){.n_heads = HEADS, .dim = DIM}, &options, &d));
    HGA_TRY(hga_decode_workspace_create(d, &w));
    HGA_TRY(hga_pages_create(d, 0, &pages));
    HGA_TRY(hga_cache_create(pages, &cache));
    HGA_TRY(feed(w, cache, n));
    printf("%-20s %d threads, %d nodes; a decoder's rows:", words, (int)hga_plan_threads(d->plan),
           (int)topology_domains(d->plan->machine.topology));
    say("written near", &count.kept), say("read near", &count.read);
    printf("; %d of %d tokens by one thread\n", (int)count.alone, (int)count.tokens);
done:
    hga_cache_destroy(cache), hga_pages_destroy(pages), hga_decode_workspace_destroy(w), hga_decoder_destroy(d);
    bench_case_clear(&c);
    return st;
}

/* An application whose first thread keeps a core, as under OpenMP's own binding. */
static void stay_at_home(void)
{
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof first, &first);
}

int main(int n_words, char **word)
{
    if (n_words < 3 || atoi(word[2]) <= ONE_BY_ONE) return fprintf(stderr, "placed_tokens VARIANT TOKENS [used]\n"), 2;
    if (n_words > 3) use_heap();
    if (!getenv("OMP_PROC_BIND")) stay_at_home();
    hga_status st = run(word[1], (hga_id)atoi(word[2]));
    return st ? bench_complain(word[1], st) : 0;
}
