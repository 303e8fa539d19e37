/* touch.c: moves pages of the caller's tensors to the NUMA nodes of the threads that own their rows. */
#define _GNU_SOURCE /* syscall */
#include "bindings.h"
#include "call_tensors.h"
#include "execution.h"
#include "owners.h"
#include "plan.h"
#include "thread_binding.h"

#include <errno.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, HUGE_PAGE = 1 << 21, MOST_PAGES = 512, MPOL_MOVE = 2 /* pages of this process only */ };

/* One call, and the pages that were on other nodes. */
typedef struct page_touch {
    const hga_plan *plan;
    const field_storage *of;
    char *data;
    row_layout layout;   /* in elements */
    ptrdiff_t row, head; /* strides of rows and heads, in bytes */
    ptrdiff_t size;
    size_t split; /* bytes of a head's row */
    int moves;
    int64_t left; /* pages that could not be moved */
    int why;      /* errno of one */
} page_touch;

/* ---- pages ---- */

static void note_left(page_touch *t, int64_t pages, int why)
{
#pragma omp critical
    t->left += pages, t->why = why;
}

/* Rows that move to one node. */
typedef struct stretch {
    int node;
    char *begin, *end;
} stretch;

/* A huge page moves to one node whole. Returns whether others have rows on it, so that it may be theirs. */
static int is_partly_theirs(const stretch *s, const void *page)
{
    uintptr_t huge = (uintptr_t)page / HUGE_PAGE * HUGE_PAGE;
    return huge < (uintptr_t)s->begin || huge + HUGE_PAGE > (uintptr_t)s->end;
}

#ifdef SYS_move_pages
/* Queries the node of each page, or with `to` moves them. where: the node of each, or a negative errno. */
static long query_nodes(void **page, int64_t n, const int *to, int *where)
{
    return syscall(SYS_move_pages, 0, (unsigned long)n, page, to, where, to ? MPOL_MOVE : 0);
}

/* Status of a page that moved with its huge page, or that another thread is moving. */
static int is_on_its_way(int is_known)
{
    return is_known >= 0 || is_known == -EBUSY || is_known == -ENOENT || is_known == -EFAULT || is_known == -EAGAIN;
}

static int64_t still_elsewhere(const stretch *s, void **page, int64_t n, const int *is_known, int *where, int *why)
{
    int64_t left = 0;
    if (query_nodes(page, n, NULL, where) < 0) return *why = errno, n;
    for (int64_t i = 0; i < n; i++) {
        if (where[i] == s->node || (is_on_its_way(is_known[i]) && is_partly_theirs(s, page[i]))) continue;
        left++, *why = is_known[i] < 0 ? -is_known[i] : EBUSY;
    }
    return left;
}
#endif

/* Moves those of at most MOST_PAGES pages that are on other nodes. */
static void move_some(page_touch *t, const stretch *s, void **page, int64_t n)
{
#ifdef SYS_move_pages
    int where[MOST_PAGES], to[MOST_PAGES], is_known[MOST_PAGES], why = 0;
    int64_t strange = 0, left = 0;
    if (query_nodes(page, n, NULL, where) < 0) {
        note_left(t, n, errno);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        if (where[i] >= 0 && where[i] != s->node)
            page[strange] = page[i], is_known[strange] = -EBUSY, to[strange++] = s->node; /* some may be told nothing */
    if (strange == 0) return;
    if (query_nodes(page, strange, to, is_known) < 0)
        left = strange, why = errno;
    else
        left = still_elsewhere(s, page, strange, is_known, where, &why);
    if (left) note_left(t, left, why);
#else
    (void)s, (void)page;
    note_left(t, n, ENOSYS);
#endif
}

static void move(page_touch *t, const stretch *s)
{
    void *page[MOST_PAGES];
    int64_t n = 0;
    for (char *p = s->begin; p < s->end; p += PAGE - (uintptr_t)p % PAGE) {
        page[n++] = p - (uintptr_t)p % PAGE;
        if (n == MOST_PAGES) move_some(t, s, page, n), n = 0;
    }
    if (n) move_some(t, s, page, n);
}

/* Writes a byte of each page as it was read: the contents stay. */
static void touch_pages(char *begin, const char *end)
{
    for (volatile char *p = begin; p < end; p += PAGE - (uintptr_t)p % PAGE) *p = *p;
}

/* ---- rows ---- */

/* Touches rows [first, end) of one head, or of all where heads are inside rows. */
static void touch_rows(page_touch *t, int node, hga_id first, hga_id end, hga_id head, size_t bytes)
{
    char *a = (char *)t->data + row_offset(&t->layout, first) * t->size + head * t->head,
         *b = a + (end - 1 - first) * t->row;
    if (a > b) {
        char *swapped = a;
        a = b, b = swapped;
    }
    touch_pages(a, b + bytes);
    if (t->moves) move(t, &(stretch){node, a, b + bytes});
}

/* Touches rows [first, end) of all heads; folded rows fold by fold. */
static void touch_heads(page_touch *t, int node, hga_id first, hga_id end)
{
    int inside = t->head >= 0 && t->row >= t->of->heads * t->head;
    for (hga_id next; first < end; first = next) {
        next = t->layout.fold ? (hga_id)((first / t->layout.fold + 1) * t->layout.fold) : end;
        if (next > end) next = end;
        if (inside) touch_rows(t, node, first, next, 0, (size_t)((t->of->heads - 1) * t->head) + t->split);
        for (hga_id h = 0; !inside && h < t->of->heads; h++) touch_rows(t, node, first, next, h, t->split);
    }
}

static void touch_owned(page_touch *t, hga_id thread)
{
    const hga_plan *plan = t->plan;
    int node = (int)topology_domain_at(plan->machine.topology, plan->team.domain[thread]).number;
    for (hga_id l = 0; l < plan->nodes.n_levels; l++) {
        hga_id first, end;
        if (owned_of_level(plan, thread, l, t->of->io_first, t->of->io_n, &first, &end))
            touch_heads(t, node, first, end);
    }
}

/* Every thread touches the pages of the rows that it will write, bound as in executions; a thread may stand for
   several. */
static void touch_together(page_touch *t)
{
    const hga_plan *plan = t->plan;
#pragma omp parallel num_threads(plan->team.n)
    {
        binding old;
        binding_take(plan, &old);
        for (hga_id i = (hga_id)omp_get_thread_num(); i < plan->team.n; i += (hga_id)omp_get_num_threads())
            touch_owned(t, i);
        topology_unbind(&old);
    }
}

/* ---- the call ---- */

/* The call's strides in bytes, and whether pages move at all. */
static page_touch touching_of(const hga_plan *plan, hga_id f, const hga_tensor *tensor)
{
    const field_storage *h = &plan->fields.storage[f];
    ptrdiff_t size = tensor->dtype == HGA_F32 ? 4 : 2;
    row_layout layout = tensor_layout(tensor, h->heads, h->columns);
    return (page_touch){.plan = plan,
                        .of = h,
                        .data = tensor->data,
                        .layout = layout,
                        .row = layout.row * size,
                        .head = layout.head * size,
                        .size = size,
                        .split = (size_t)(h->columns * size),
                        .moves = plan->team.binding != BIND_NOTHING && topology_domains(plan->machine.topology) > 1};
}

hga_status hga_plan_touch(const hga_plan *plan, hga_binding of, const hga_tensor *tensor)
{
    hga_id f;
    hga_status st = owned_field(plan, of, &f);
    if (st) return st;
    if (!tensor || !tensor->data) return hga_fail(HGA_EINVAL, "no tensor");
    call_tensor whole = tensor_of_field(plan, f, tensor, "the tensor of field");
    io_array array;
    whole.rows = whole.needed = plan->fields.storage[f].io_n;
    HGA_TRY(call_tensor_check(plan, &whole));
    HGA_TRY(call_tensor_array(&whole, &array)); /* strides stay in memory */
    page_touch t = touching_of(plan, f, tensor);
    if (plan->waves.alone || execution_is_alone(plan)) {
        for (hga_id i = 0; i < plan->team.n; i++) touch_owned(&t, i);
    } else {
        HGA_TRY(threads_prepare(plan->team.n));
        touch_together(&t);
    }
    if (t.left)
        HGA_TRY(hga_fail(HGA_EEXTERNAL,
                         "%lld pages of field %s's tensor lie on other nodes and cannot be moved, errno %d",
                         (long long)t.left, plan->program.field[f].name, t.why));
done:
    return st;
}
