/* call_arrays.c: the tensors of a drawn call, each in a layout and a type of its own. */
#include "call_parts.h"

static int64_t rows_of(const hga_graph *g, hga_field_rows rows)
{
    hga_nodes nodes = hga_graph_nodes(g);
    int64_t n = 0;
    for (hga_id v = 0; v < nodes.n; v++) {
        int side = nodes.side ? nodes.side[v] : HGA_SIDE_BOTH;
        n += rows == HGA_ROWS_QUERIES      ? v >= nodes.query_first && v < nodes.query_first + nodes.n_queries
             : rows == HGA_ROWS_KEYS       ? v >= nodes.key_first && v < nodes.key_first + nodes.n_keys
             : rows == HGA_ROWS_QUERY_SIDE ? side != HGA_SIDE_KEY
             : rows == HGA_ROWS_KEY_SIDE   ? side != HGA_SIDE_QUERY
             : rows == HGA_ROWS_ABOVE      ? v >= nodes.level_ptr[1]
                                           : 1;
    }
    return n;
}

static hga_id columns_of(const hga_shape *s, hga_width width)
{
    hga_id values = s->dim_v ? s->dim_v : s->dim;
    return width == HGA_WIDTH_SCALAR ? 1 : width == HGA_WIDTH_KEY || width == HGA_WIDTH_KV_KEY ? s->dim : values;
}

static hga_id heads_of(const hga_shape *s, hga_width width)
{
    return width == HGA_WIDTH_KV_KEY || width == HGA_WIDTH_VALUE ? s->n_kv_heads : s->n_heads;
}

static int64_t elements_of(const array *a)
{
    return a->rows && a->columns ? (a->rows - 1) * a->row_stride + (a->heads - 1) * a->head_stride + a->columns : 0;
}

array *call_add_array(drawn_call *call, array a)
{
    if (call->n_arrays == MOST_ARRAYS) draw_fail("more than %d arrays", MOST_ARRAYS);
    a.packed = 1, a.head_stride = (ptrdiff_t)a.columns, a.row_stride = a.heads * (ptrdiff_t)a.columns;
    a.dtype = HGA_F32, a.elements = elements_of(&a), a.written_from = a.rows;
    call->plain[call->n_arrays] = call->drawn[call->n_arrays] = a;
    return &call->drawn[call->n_arrays++];
}

/* Packed or with gaps, rows or heads outermost; float32 more often than 16 bits. */
static void draw_layout(choices *c, array *a)
{
    int how = choose(c, 4), gap = how ? choose(c, 3) : 0;
    if (how == 3)
        a->row_stride = (ptrdiff_t)a->columns + gap, a->head_stride = (ptrdiff_t)a->rows * a->row_stride + gap;
    else
        a->head_stride = (ptrdiff_t)a->columns + gap, a->row_stride = a->heads * a->head_stride + gap;
    a->packed = !how;
    if (rarely(c, 4)) a->dtype = choose(c, 2) ? HGA_F16 : HGA_BF16;
    a->elements = elements_of(a);
}

static void add_tensor(choices *c, drawn_call *call, const char *name, array_use use, size_t at, int64_t rows,
                       hga_id heads, hga_id columns, int by_row)
{
    array a = {.name = name, .use = use, .is_tensor = 1, .by_row = by_row, .at = at};
    a.rows = rows, a.heads = heads, a.columns = columns;
    draw_layout(c, call_add_array(call, a));
}

/* Of log-sum-exps, which are float32 always. */
static void add_lse(choices *c, drawn_call *call, const char *name, array_use use, size_t at)
{
    add_tensor(c, call, name, use, at, call->out_rows, call->shape.n_heads, 1, 1);
    call->drawn[call->n_arrays - 1].dtype = HGA_F32;
}

void call_add_table(drawn_call *call, const char *name, array_use use, size_t at, int64_t n)
{
    call_add_array(call, (array){.name = name, .use = use, .at = at, .rows = 1, .heads = 1, .columns = n});
}

static void add_output(choices *c, drawn_call *call, const hga_field *f)
{
    const hga_shape *s = &call->shape;
    hga_id columns = columns_of(s, f->width);
    call->out_rows = rows_of(call->graph, f->io);
    add_tensor(c, call, "out", ARRAY_WRITTEN, offsetof(hga_io, out), call->out_rows, s->n_heads, columns, 1);
    if (call->options.gradient)
        add_tensor(c, call, "d_out", ARRAY_INPUT, offsetof(hga_grad_io, d_out), call->out_rows, s->n_heads, columns, 1);
    if (!call->program->has_lse) return;
    if (choose(c, 3)) add_lse(c, call, "lse", ARRAY_WRITTEN, offsetof(hga_io, lse));
    if (call->options.gradient && choose(c, 2)) add_lse(c, call, "d_lse", ARRAY_INPUT, offsetof(hga_grad_io, d_lse));
}

/* The first of the caller's rows of a field that a stage writes, as many as there are without. A stage that coarsens in
   place leaves tokens alone. */
static int64_t first_written(const drawn_call *call, hga_id field, int64_t rows)
{
    hga_id first, n, tokens = hga_graph_nodes(call->graph).level_ptr[1];
    int64_t from = rows;
    if (hga_program_rows(call->program, call->graph, field, &first, &n)) return rows;
    for (hga_id i = 0; i < call->program->n_stages; i++) {
        const hga_stage *s = &call->program->stage[i];
        int keeps_tokens = s->order == HGA_LEVELS_UP && s->value == s->out && s->message != HGA_MESSAGE_USER;
        int64_t here = keeps_tokens && tokens > first ? tokens - first : 0;
        if (s->writes >> field & 1 && here < from) from = here;
    }
    return from;
}

/* The tensors of a field, forward and back. */
static void add_field(choices *c, drawn_call *call, const hga_field *f, int user)
{
    static const char *const names[] = {
        [HGA_IO_QUERY] = "query", [HGA_IO_KEY] = "key", [HGA_IO_VALUE] = "value", [HGA_IO_USER] = "user"};
    static const char *const gradients[] = {
        [HGA_IO_QUERY] = "d_query", [HGA_IO_KEY] = "d_key", [HGA_IO_VALUE] = "d_value", [HGA_IO_USER] = "d_user"};
    static const size_t in_io[] = {[HGA_IO_QUERY] = offsetof(hga_io, query),
                                   [HGA_IO_KEY] = offsetof(hga_io, key),
                                   [HGA_IO_VALUE] = offsetof(hga_io, value),
                                   [HGA_IO_USER] = offsetof(hga_io, user)};
    static const size_t in_grad[] = {[HGA_IO_QUERY] = offsetof(hga_grad_io, d_query),
                                     [HGA_IO_KEY] = offsetof(hga_grad_io, d_key),
                                     [HGA_IO_VALUE] = offsetof(hga_grad_io, d_value),
                                     [HGA_IO_USER] = offsetof(hga_grad_io, d_user)};
    size_t step = f->binding == HGA_IO_USER ? (size_t)user * sizeof(hga_tensor) : 0;
    int64_t rows = rows_of(call->graph, f->io);
    hga_id heads = heads_of(&call->shape, f->width), columns = columns_of(&call->shape, f->width);
    add_tensor(c, call, names[f->binding], ARRAY_READ, in_io[f->binding] + step, rows, heads, columns, 0);
    if (f->binding == HGA_IO_USER) {
        int64_t from = first_written(call, (hga_id)(f - call->program->field), rows);
        call->drawn[call->n_arrays - 1].written_from = call->plain[call->n_arrays - 1].written_from = from;
    }
    if (call->options.gradient)
        add_tensor(c, call, gradients[f->binding], ARRAY_OUTPUT, in_grad[f->binding] + step, rows, heads, columns, 0);
}

void call_add_tensors(choices *c, drawn_call *call)
{
    int user = 0;
    for (hga_id i = 1; i <= call->program->n_fields; i++) {
        const hga_field *f = &call->program->field[i];
        if (f->binding == HGA_INTERNAL || (f->binding == HGA_IO_USER && user == HGA_MAX_USER_TENSORS)) continue;
        if (f->binding == HGA_IO_OUT)
            add_output(c, call, f);
        else
            add_field(c, call, f, user);
        user += f->binding == HGA_IO_USER;
    }
}

/* A caller may bring what the program has no field for, and want its gradient: zeros. */
void call_add_unbound(choices *c, drawn_call *call)
{
    static const hga_field usual[] = {{.binding = HGA_IO_QUERY, .width = HGA_WIDTH_KEY, .io = HGA_ROWS_QUERIES},
                                      {.binding = HGA_IO_KEY, .width = HGA_WIDTH_KV_KEY, .io = HGA_ROWS_KEYS},
                                      {.binding = HGA_IO_VALUE, .width = HGA_WIDTH_VALUE, .io = HGA_ROWS_KEYS}};
    for (int i = 0; i < 3; i++)
        if (!hga_program_field(call->program, usual[i].binding) && choose(c, 3)) add_field(c, call, &usual[i], 0);
}
