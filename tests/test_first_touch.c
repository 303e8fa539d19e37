/* test_first_touch.c: which thread first touches each page of a state. The allocator is a parameter: this one hands
   out pages that may not be accessed; the fault handler notes the thread that came first and opens the page. */
#define _GNU_SOURCE
#include "plan.h"
#include "stage_rows.h"
#include "testing.h"
#include "workspace.h"

#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, MAX_MAPPINGS = 1024, THREADS = 2, HEADS = 4, DIM = 32, TOKENS = 16384, NOBODY = 255 };

/* One allocation and who touched its pages. */
typedef struct mapping {
    char *start;
    size_t pages;
    volatile unsigned char *toucher; /* [pages]: a thread's number, NOBODY before */
} mapping;

static mapping mappings[MAX_MAPPINGS];
static int n_mappings;
static volatile int guarded; /* 0: pages are open from the start */
static _Thread_local int my_number;

static mapping *mapping_of(const void *p)
{
    for (int i = 0; i < n_mappings; i++)
        if ((const char *)p >= mappings[i].start && (const char *)p < mappings[i].start + mappings[i].pages * PAGE)
            return &mappings[i];
    return NULL;
}

static void note_touch(int sig, siginfo_t *info, void *context)
{
    (void)context;
    mapping *a = mapping_of(info->si_addr);
    if (!a) {
        signal(sig, SIG_DFL);
        return;
    }
    size_t number = (size_t)((char *)info->si_addr - a->start) / PAGE;
    if (a->toucher[number] == NOBODY) a->toucher[number] = (unsigned char)my_number;
    mprotect(a->start + number * PAGE, PAGE, PROT_READ | PROT_WRITE);
}

static void *take_guarded(size_t bytes, void *context)
{
    (void)context;
    size_t pages = (bytes + PAGE - 1) / PAGE;
    if (n_mappings == MAX_MAPPINGS) return NULL;
    char *start =
        mmap(NULL, pages * PAGE, guarded ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return NULL;
    unsigned char *toucher = malloc(pages);
    memset(toucher, NOBODY, pages);
    mappings[n_mappings++] = (mapping){start, pages, toucher};
    return start;
}

static void give_back_guarded(void *p, size_t bytes, void *context)
{
    (void)bytes, (void)context;
    mapping *a = mapping_of(p);
    munmap(a->start, a->pages * PAGE);
    free((void *)a->toucher);
    *a = mappings[--n_mappings];
}

static hga_allocator guard = {take_guarded, give_back_guarded, NULL};

/* libgomp keeps its threads from one region to the next. */
static void number_threads(void)
{
#pragma omp parallel num_threads(THREADS)
    my_number = omp_get_thread_num();
}

static int toucher_of(const void *p)
{
    const mapping *a = mapping_of(p);
    return a->toucher[(size_t)((const char *)p - a->start) / PAGE];
}

static int64_t touched(const mapping *a)
{
    int64_t n = 0;
    for (size_t i = 0; i < a->pages; i++) n += a->toucher[i] != NOBODY;
    return n;
}

static int *owners;           /* the thread that has a panel in its list; panels of the phases one after the other */
static int64_t *first_panels; /* [phases + 1]: where a phase's panels begin in it */

static void list_owners(const hga_plan *plan)
{
    const wave_order *waves = &plan->waves;
    first_panels = memory(plan->phases.n + 1, sizeof *first_panels);
    for (int64_t i = 0; i < plan->phases.n; i++) {
        const phase *ph = &plan->phases.list[i];
        first_panels[i + 1] = first_panels[i] + (ph->panel > 0 ? (ph->n + ph->panel - 1) / ph->panel : 1);
    }
    owners = memory(first_panels[plan->phases.n], sizeof *owners);
    for (int64_t i = 0; i < first_panels[plan->phases.n]; i++) owners[i] = -1;
    for (int64_t list = (int64_t)waves->n * plan->team.n; list-- > 0;)
        for (int64_t i = waves->ptr[list]; i < waves->ptr[list + 1]; i++)
            owners[first_panels[waves->item[i].phase] + waves->item[i].panel] =
                waves->alone ? 0 : (int)(list % plan->team.n);
}

/* A field and its aliases, who live in its rows, as bits. */
static unsigned with_aliases(const hga_plan *plan, hga_id f)
{
    unsigned fields = 1u << f;
    for (hga_id g = 1; g <= plan->program.n_fields; g++)
        if (plan->fields.storage[g].host == f) fields |= 1u << g;
    return fields;
}

/* The thread that has row v in the first phase that writes field f, or an alias of it. */
static int owner_of(const hga_plan *plan, hga_id f, hga_id v)
{
    for (int64_t i = 0; i < plan->phases.n; i++) {
        const phase *ph = &plan->phases.list[i];
        unsigned writes = 0;
        for (hga_id s = ph->stage; ph->job == JOB_ROWS && s < stages_end(ph); s++)
            writes |= plan->program.stage[s].writes & with_aliases(plan, f);
        if (!writes) continue;
        if (ph->by_position) return -1; /* its rows lie scattered, and pages have several owners */
        hga_id at = v - ph->first;
        if (at >= 0 && at < ph->n) return owners[first_panels[i] + at / ph->panel];
    }
    return -1;
}

/* Pages on which rows begin, and how many of them hold a row of another worker's than the one that touched them first.
   Rows come in ascending order. */
typedef struct tally {
    int64_t pages, strange;
    uintptr_t page, strange_page; /* counted last */
} tally;

static void count_row(const hga_plan *plan, hga_id f, hga_id v, const void *row, tally *count)
{
    int owner = owner_of(plan, f, v);
    uintptr_t here = (uintptr_t)row / PAGE;
    if (owner < 0) return;
    if (here != count->page) count->page = here, count->pages++;
    if (toucher_of(row) != owner && here != count->strange_page) count->strange_page = here, count->strange++;
}

static void count_workspace(const hga_plan *plan, const hga_workspace *s, hga_id f, tally *count)
{
    const field_storage *h = &plan->fields.storage[f];
    for (hga_id v = h->rows.first; v < h->rows.first + h->rows.n; v++)
        if (!bound_is_io(&s->field[f], v)) count_row(plan, f, v, bound_row(&s->field[f], v), count);
}

static void count_output(const hga_plan *plan, const float *out, tally *count)
{
    hga_id f = program_bound(&plan->program, HGA_IO_OUT);
    const field_storage *h = &plan->fields.storage[f];
    for (hga_id i = 0; i < h->io_n; i++)
        count_row(plan, f, h->io_first + i, out + (int64_t)i * h->heads * h->columns, count);
}

static void check_variant(const char *name)
{
    hga_shape shape = {.n_heads = HEADS, .dim = DIM};
    problem p;
    hga_plan *plan;
    hga_workspace *s;
    tally inside = {0}, outside = {0};
    variant_build(variant_named(name), shortened(TOKENS), 1, &shape, &p);
    p.options.threads = THREADS, p.options.topology = "pack:2 numa:1 core:2 pu:1", p.options.allocator = &guard;
    guarded = 0;
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &p.options, &plan));
    size_t out_bytes = (size_t)out_count(&p) * sizeof(float);
    guarded = 1;
    float *out = take_guarded(out_bytes, NULL);
    assert_ok(hga_workspace_create(plan, &s));
    assert_int_equal(touched(mapping_of(s->memory.rows)), 0); /* creating a state touches nothing of it .. */
    for (hga_id t = 0; t < THREADS; t++) assert_int_equal(touched(mapping_of(s->team.worker[t].memory.at)), 0);
    p.io.out.data = out;
    assert_ok(hga_plan_execute(plan, s, &p.io));
    /* .. and a worker clears its own scratch */
    for (hga_id t = 0; t < THREADS; t++) assert_int_equal(toucher_of(s->team.worker[t].rows.row.query), t);
    list_owners(plan);
    for (hga_id f = 1; f <= plan->program.n_fields; f++) count_workspace(plan, s, f, &inside);
    count_output(plan, out, &outside);
    print_message(
        "%s: first touched by another worker: %lld of %lld pages of the workspace, %lld of %lld of the output\n", name,
        (long long)inside.strange, (long long)inside.pages, (long long)outside.strange, (long long)outside.pages);
    /* Stages cut their rows into panels of different heights: where two parts meet, a panel's pages may be the
       other's. */
    assert_true(20 * inside.strange <= inside.pages);
    assert_in_range(outside.strange, 0, THREADS - 1);
    free(owners), free(first_panels);
    hga_workspace_destroy(s), hga_plan_destroy(plan), problem_clear(&p);
    give_back_guarded(out, out_bytes, NULL);
}

/* What a prompt leaves for the tokens behind it lies with the thread that appends these, whoever has made it. */
static void check_decoder(const char *words)
{
    enum { N = 4096 };
    problem p = {.shape = {.n_heads = HEADS, .dim = DIM}};
    const hga_decode_options options = {
        .plan = {.threads = THREADS, .topology = "pack:2 numa:1 core:2 pu:1", .allocator = &guard}};
    hga_decoder *d;
    hga_decode_workspace *w;
    hga_pages *pages;
    hga_cache *c;
    int64_t rows = 0, strange = 0;
    assert_ok(hga_build(words, N, &p.graph, &p.program));
    problem_fill(&p, 1);
    guarded = 0;
    assert_ok(hga_decoder_create(p.graph, &p.program, &p.shape, &options, &d));
    guarded = 1;
    assert_ok(hga_decode_workspace_create(d, &w)), assert_ok(hga_pages_create(d, 0, &pages));
    assert_ok(hga_cache_create(pages, &c));
    p.io.out.data = NULL;
    assert_ok(hga_decoder_append(d, w, &(hga_append){.cache = c, .n_tokens = N - 1, .io = p.io}, 1));
    for (hga_id f = 1; f <= p.program.n_fields; f++)
        for (hga_id v = 0; v < d->n_nodes; v++) {
            if (!w->workspace->slots.of[f].slot[v]) continue;
            rows++, strange += toucher_of(workspace_input_row(w->workspace, f, v)) != 0;
        }
    print_message("%s: of a decoder's %lld rows %lld were written first by a thread that does not append\n", words,
                  (long long)rows, (long long)strange);
    assert_true(rows > 50);
    assert_int_equal(strange, 0);
    hga_cache_destroy(c), hga_pages_destroy(pages), hga_decode_workspace_destroy(w), hga_decoder_destroy(d);
    problem_clear(&p);
}

#if defined(__SANITIZE_ADDRESS__)
static void pages_belong_to_the_worker_of_their_rows(void **state)
{
    (void)state, (void)check_variant, (void)check_decoder, (void)note_touch, (void)number_threads;
    print_message("skipped: AddressSanitizer takes the faults that this test counts by\n");
    skip();
}
#else
static void pages_belong_to_the_worker_of_their_rows(void **state)
{
    (void)state;
    const char *preload = getenv("LD_PRELOAD");
    if (preload && strstr(preload, "vgpreload")) {
        print_message("skipped: valgrind takes the faults that this test counts by\n");
        skip();
    }
    struct sigaction action = {.sa_sigaction = note_touch, .sa_flags = SA_SIGINFO}, old;
    omp_set_dynamic(0);
    number_threads();
    assert_int_equal(sigaction(SIGSEGV, &action, &old), 0);
    check_variant("neighbours");
    check_variant("hsa");
    check_variant("window");
    check_decoder("htransformer causal=1");
    sigaction(SIGSEGV, &old, NULL);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pages_belong_to_the_worker_of_their_rows)};
    return cmocka_run_group_tests_name("first_touch", tests, NULL, NULL);
}
