/* test_pages.c: where there are several domains, memory that nobody has touched goes to the thread that has its rows:
   workspaces on fresh pages, pools that begin at pages, rows of the caller's tensors and samples of a batch with their
   threads. */
#define _GNU_SOURCE
#include "cache.h"
#include "plan.h"
#include "sample_queue.h"
#include "testing.h"
#include "workspace.h"
#include "workspace_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, MOST = 64 };
static const char *const two_domains = "numa:2 core:2 pu:1";

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
static int maps_left = -1; /* until one fails; -1: none does */
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    if (maps_left >= 0 && maps_left-- == 0) return MAP_FAILED;
    return __real_mmap(at, bytes, protection, flags, file, offset);
}

static problem named(const char *words, hga_id n, hga_shape shape)
{
    problem p = {.shape = shape};
    snprintf(p.name, sizeof p.name, "%s", words);
    assert_ok(hga_build(words, n, &p.graph, &p.program));
    problem_fill(&p, 1);
    return p;
}

static hga_plan *planned(const problem *p, hga_options options)
{
    hga_plan *plan;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &options, &plan));
    return plan;
}

static const hga_shape shape = {.n_heads = 4, .dim = 16};

/* Pages that are there, of those that lie in the block whole. */
static int64_t resident(const void *block, int64_t bytes)
{
    uintptr_t begin = ((uintptr_t)block + PAGE - 1) / PAGE * PAGE,
              end = ((uintptr_t)block + (uintptr_t)bytes) / PAGE * PAGE;
    if (end <= begin) return 0;
    size_t pages = (end - begin) / PAGE;
    unsigned char *there = malloc(pages);
    int64_t n = 0;
    assert_int_equal(mincore((void *)begin, end - begin, there), 0);
    for (size_t i = 0; i < pages; i++) n += there[i] & 1;
    free(there);
    return n;
}

/* A program that had memory and gave it back, in blocks that malloc keeps. */
static void use_the_heap(void)
{
    char *block[MOST], *volatile big = malloc(30 << 20);
    memset(big, 1, 30 << 20);
    free(big);
    for (int i = 0; i < MOST; i++) block[i] = malloc(1 << 20), memset(block[i], 1, 1 << 20);
    for (int i = 0; i + 1 < MOST; i++) free(block[i]);
    free(block[MOST - 1]);
}

static void a_workspace_is_untouched_on_a_used_heap(void **state)
{
    static const char *const words[] = {"htransformer", "bpt", "hsa branching=16,16,16"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        problem p = named(words[i], 4096, shape);
        hga_plan *plan = planned(&p, (hga_options){.threads = 4, .topology = two_domains});
        hga_workspace *w;
        use_the_heap();
        assert_ok(hga_workspace_create(plan, &w));
        assert_int_equal(resident(w->memory.at, w->memory.floats * (int64_t)sizeof(float)), 0);
        for (hga_id t = 0; t < w->team.n; t++)
            assert_int_equal(resident(w->team.worker[t].memory.at, w->team.worker[t].memory.bytes), 0);
        void *spare;
        assert_ok(workspace_spare(w, 1 << 20, &spare));
        assert_int_equal(resident(spare, 1 << 20), 0);
        hga_workspace_destroy(w), hga_plan_destroy(plan), problem_clear(&p);
    }
}

static void memory_that_the_system_refuses_is_said(void **state)
{
    (void)state;
    problem p = named("htransformer", 500, shape);
    hga_plan *plan = planned(&p, (hga_options){.threads = 4, .topology = two_domains});
    hga_workspace *w = NULL;
    int n = 0;
    for (hga_status st = HGA_ENOMEM; st; n++) {
        maps_left = n;
        st = hga_workspace_create(plan, &w);
        maps_left = -1;
        if (st) assert_int_equal(st, HGA_ENOMEM), assert_null(w);
    }
    assert_true(n > 5);
    hga_workspace_destroy(w), hga_plan_destroy(plan), problem_clear(&p);
}

static void large_blocks_begin_at_a_huge_page(void **state)
{
    (void)state;
    hga_allocator a = pages_fresh();
    int64_t large = (INT64_C(1) << 28) + 5;
    assert_int_equal(pages_grain(large), 1 << 21);
    assert_int_equal(pages_grain(1 << 20), PAGE);
    char *block;
    assert_ok(hga_new(&a, large, 1, &block));
    assert_int_equal((uintptr_t)block % (1 << 21), 0);
    block[0] = block[large - 1] = 1;
    hga_delete(&a, block, large, 1);
    maps_left = 0;
    assert_status(HGA_ENOMEM, hga_new(&a, large, 1, &block));
    maps_left = -1;
}

/* Rows of the second domain begin at a page, and those of the first are before it. */
static void pools_begin_at_pages(void **state)
{
    (void)state;
    problem p = named("htransformer", 4096, (hga_shape){.n_heads = 3, .dim = 7});
    hga_plan *plan = planned(&p, (hga_options){.threads = 4, .topology = two_domains});
    hga_plan *one = planned(&p, (hga_options){.threads = 4, .topology = "numa:1 core:4 pu:1"});
    assert_true(plan->fields.n_pools > 0);
    for (hga_id i = 0; i < plan->fields.n_pools; i++) {
        const row_pool *pool = &plan->fields.pool[i], *packed = &one->fields.pool[i];
        assert_int_equal(pool->at * 4 % PAGE, 0);
        assert_in_range(pool->rows - packed->rows, 0, PAGE / (4 * pool->floats) + 1);
    }
    assert_true(plan->fields.pool[0].rows > one->fields.pool[0].rows);
    hga_plan_destroy(one), hga_plan_destroy(plan), problem_clear(&p);
}

/* Pages begin at lines of the processor's, whatever a row of theirs has, also where one huge page is many of them. */
static void pages_of_caches_begin_at_lines(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        problem p = named("dense causal=1", 64, (hga_shape){.n_heads = 3, .dim = 11 + 4 * i, .dim_v = 37});
        hga_decode_options o = {.page_rows = 1 << i, .page_type = i == 1 ? HGA_BF16 : HGA_F32};
        hga_decoder *d;
        hga_pages *pages;
        page *next, *taken = NULL;
        int64_t in_slabs = 0, odd = 0;
        assert_ok(hga_decoder_create(p.graph, &p.program, &p.shape, &o, &d));
        assert_ok(hga_pages_create(d, 0, &pages));
        for (hga_id kind = 0; hga_pages_used(pages) < 20 << 20; kind = (kind + 1) % N_PAGE_KINDS) {
            if (!d->page_bytes[kind]) continue;
            assert_ok(page_take(pages, kind, &next));
            assert_int_equal((uintptr_t)next % PAGE_HEAD, 0);
            memset((char *)next + PAGE_HEAD, 0xff, (size_t)d->page_bytes[kind] - PAGE_HEAD);
            in_slabs += next->lies_in_slab, odd += d->page_bytes[kind] % PAGE_HEAD != 0;
            next->next = taken, taken = next;
        }
        assert_true(in_slabs > 100 && odd > 100);
        for (; taken; taken = next) next = taken->next, page_drop(pages, taken);
        assert_int_equal(hga_pages_used(pages), 0);
        hga_pages_destroy(pages), hga_decoder_destroy(d), problem_clear(&p);
    }
}

/* Panels over the same columns run head by head, to the last of them: no other node takes over their log-sum-exps.
   Those of windows take turns, as their columns move on. */
static int64_t rows_of_lse(const char *words, hga_id n)
{
    problem p = named(words, n, shape);
    hga_plan *plan = planned(&p, (hga_options){.threads = 2});
    const area *lse = &plan->fields.storage[program_bound(&plan->program, HGA_IO_OUT)].lse;
    int64_t rows = lse->slot ? plan->fields.pool[0].rows : lse->n;
    hga_plan_destroy(plan), problem_clear(&p);
    return rows;
}

static void states_of_all_heads_wait_for_the_last(void **state)
{
    (void)state;
    assert_int_equal(rows_of_lse("dense", 4096), 4096);
    assert_int_equal(rows_of_lse("dense causal=1", 4096), 4096);
    assert_in_range(rows_of_lse("window left=64 right=64", 8192), 1, 4096);
}

/* ---- rows ---- */

/* The thread that runs the panel of the output's row, in the last phase that writes it. */
static void list_writers(const hga_plan *plan, hga_id *writer)
{
    const wave_order *o = &plan->waves;
    hga_id out = program_bound(&plan->program, HGA_IO_OUT);
    const field_storage *h = &plan->fields.storage[out];
    for (int64_t list = 0; list < (int64_t)o->n * plan->team.n; list++)
        for (int64_t i = o->ptr[list]; i < o->ptr[list + 1]; i++) {
            const phase *ph = &plan->phases.list[o->item[i].phase];
            unsigned writes = 0;
            for (hga_id s = ph->stage; ph->job == JOB_ROWS && s < stages_end(ph); s++)
                writes |= plan->program.stage[s].writes >> out & 1u;
            for (hga_id v = ph->first + o->item[i].panel * ph->panel, n = 0;
                 writes && n < ph->panel && v < ph->first + ph->n; v++, n++)
                if (v >= h->io_first && v < h->io_first + h->io_n)
                    writer[v - h->io_first] = (hga_id)(list % plan->team.n);
        }
}

static void rows_are_those_that_a_thread_writes(void **state)
{
    static const char *const words[] = {"window left=50 right=50", "htransformer", "hsa branching=16,16,16", "fenwick"};
    (void)state;
    for (int i = 0; i < 4; i++)
        for (hga_id threads = 1; threads < 8; threads += 3) {
            problem p = named(words[i], 4096, shape);
            hga_plan *plan = planned(&p, (hga_options){.threads = threads, .topology = two_domains});
            hga_id *writer = memory(p.n_out, sizeof *writer);
            int64_t next = 0, same = 0;
            list_writers(plan, writer);
            for (hga_id t = 0; t < threads; t++) {
                int64_t first, n;
                assert_ok(hga_plan_rows(plan, HGA_IO_OUT, t, &first, &n));
                if (n == 0) continue;
                assert_int_equal(first, next); /* every row once */
                for (next = first; next < first + n; next++) same += writer[next] == t;
            }
            assert_int_equal(next, p.n_out);
            if (100 * same < 99 * p.n_out)
                fail_msg("%s, %d threads: %lld of %lld rows", words[i], threads, (long long)same, (long long)p.n_out);
            free(writer), hga_plan_destroy(plan), problem_clear(&p);
        }
}

static void rows_of_nothing_are_refused(void **state)
{
    (void)state;
    problem p = named("bpt", 300, shape);
    hga_plan *plan = planned(&p, (hga_options){.threads = 2});
    int64_t first, n;
    assert_status(HGA_EUNSUPPORTED, hga_plan_rows(plan, HGA_IO_OUT, 0, &first, &n));
    assert_non_null(strstr(hga_error_detail(), "several levels"));
    assert_status(HGA_EINVAL, hga_plan_rows(plan, HGA_IO_OUT, 2, &first, &n));
    assert_non_null(strstr(hga_error_detail(), "thread 2 of 2"));
    assert_status(HGA_EINVAL, hga_plan_rows(plan, HGA_INTERNAL, 0, &first, &n));
    assert_status(HGA_EINVAL, hga_plan_rows(plan, HGA_IO_OUT, 0, NULL, &n));
    assert_status(HGA_EINVAL, hga_plan_rows(NULL, HGA_IO_OUT, 0, &first, &n));
    hga_tensor t = p.io.out;
    assert_status(HGA_EINVAL, hga_plan_touch(plan, HGA_IO_OUT, NULL));
    t.rows--;
    assert_status(HGA_EINVAL, hga_plan_touch(plan, HGA_IO_OUT, &t));
    t.rows++, t.dtype = (hga_dtype)7;
    assert_status(HGA_EUNSUPPORTED, hga_plan_touch(plan, HGA_IO_OUT, &t));
    t = p.io.out, t.row_stride = PTRDIFF_MAX / 4;
    assert_status(HGA_EOVERFLOW, hga_plan_touch(plan, HGA_IO_OUT, &t));
    hga_plan_destroy(plan), problem_clear(&p);
}

/* In any layout: [rows][heads][columns], [heads][rows][columns], backwards, of 16 bits. */
static void touching_brings_pages_and_changes_no_number(void **state)
{
    static const char *const words[] = {"window left=50 right=50", "bpt"};
    (void)state;
    for (int i = 0; i < 8; i++) {
        problem p = named(words[i / 4], 4096, shape);
        hga_plan *plan = planned(&p, (hga_options){.threads = 3});
        int64_t rows = p.n_out, floats = rows * 64, bytes = floats * (i % 4 == 3 ? 2 : 4);
        unsigned char *fresh = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(fresh != MAP_FAILED);
        fresh[bytes / 2] = 7;
        hga_tensor t = {.data = fresh, .rows = rows, .dtype = i % 4 == 3 ? HGA_BF16 : HGA_F32};
        if (i % 4 == 1) t.row_stride = 16, t.head_stride = (ptrdiff_t)rows * 16;
        if (i % 4 == 2) t.data = fresh + 4 * (floats - 64), t.row_stride = -64, t.head_stride = 16;
        assert_ok(hga_plan_touch(plan, HGA_IO_OUT, &t));
        assert_int_equal(resident(fresh, bytes), bytes / PAGE);
        for (int64_t b = 0; b < bytes; b++)
            if (fresh[b] != (b == bytes / 2 ? 7 : 0)) fail_msg("byte %lld", (long long)b);
        munmap(fresh, (size_t)bytes), hga_plan_destroy(plan), problem_clear(&p);
    }
}

/* ---- samples ---- */

/* Two threads in each domain. Every sample is taken once: a thread takes its own first, then its domain's, then
   anybody's. */
static void samples_go_where_their_memory_is(void **state)
{
    (void)state;
    problem p = named("window left=5 right=5", 100, shape);
    hga_plan *plan = planned(&p, (hga_options){.threads = 4, .topology = two_domains});
    hga_workspace *w[8];
    for (int i = 0; i < 8; i++) assert_ok(hga_workspace_create(plan, &w[i]));
    sample_queue d = sample_queue_open(plan, w, 8, 4);
    queue_position all = {0};
    static const hga_id order[] = {6, 7, 4, 5, 0, 1, 2, 3}; /* of thread 3 */
    for (int i = 0; i < 8; i++) assert_int_equal(sample_queue_next(&d, 3, &all), order[i]);
    assert_int_equal(sample_queue_next(&d, 3, &all), -1);
    d = sample_queue_open(plan, w, 8, 4); /* thread 3 had them all, whose memory they are in now */
    queue_position first = {0}, third = {0};
    assert_int_equal(sample_queue_next(&d, 3, &third), 0);
    assert_int_equal(sample_queue_next(&d, 0, &first), 1); /* stolen */
    assert_int_equal(sample_queue_next(&d, 3, &third), 2);
    d = sample_queue_open(plan, w, 8, 4); /* and back at home, for its memory did not move */
    third = (queue_position){0};
    for (int i = 0; i < 8; i++) assert_int_equal(sample_queue_next(&d, 3, &third), i);
    for (int i = 0; i < 8; i++) hga_workspace_destroy(w[i]);
    hga_plan_destroy(plan), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_workspace_is_untouched_on_a_used_heap),
        cmocka_unit_test(memory_that_the_system_refuses_is_said),
        cmocka_unit_test(large_blocks_begin_at_a_huge_page),
        cmocka_unit_test(pools_begin_at_pages),
        cmocka_unit_test(pages_of_caches_begin_at_lines),
        cmocka_unit_test(states_of_all_heads_wait_for_the_last),
        cmocka_unit_test(rows_are_those_that_a_thread_writes),
        cmocka_unit_test(rows_of_nothing_are_refused),
        cmocka_unit_test(touching_brings_pages_and_changes_no_number),
        cmocka_unit_test(samples_go_where_their_memory_is),
    };
    return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
