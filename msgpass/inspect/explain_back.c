/* explain_back.c: which solver computes a plan's gradients, and why no other does. */
#include "explain_back.h"
#include "hga_gradient.h"

#include <string.h>

/* A call of packed tensors: which tensors and gradients are present, without their numbers. */
typedef struct call_back {
    hga_io io;
    hga_grad_io grad;
    int has; /* 0: no tables */
} call_back;

/* Any address stands for a tensor, since plans only check whether it is NULL. */
static call_back call_like(const hga_io *input)
{
    static const float any;
    call_back c = {.has = 0};
    const hga_tensor packed = {.data = (void *)(uintptr_t)&any};
    c.io.query = c.io.key = c.io.value = c.io.out = c.grad.d_out = packed;
    c.grad.d_query = c.grad.d_key = c.grad.d_value = packed;
    for (int i = 0; i < HGA_MAX_USER_TENSORS; i++) c.io.user[i] = c.grad.d_user[i] = packed;
    if (input) memcpy(c.io.table, input->table, sizeof c.io.table);
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) c.has |= c.io.table[t].data != NULL;
    return c;
}

/* The i-th solver that the plan tries, NULL after the last; *refusal is why it does not run. */
static const char *tried(const hga_plan *plan, const call_back *c, hga_id i, const char **refusal)
{
    return hga_plan_gradient_tried(plan, c->has ? &c->io : NULL, c->has ? &c->grad : NULL, i, refusal);
}

/* Asks every solver of the table in order: the first without a reason against it runs the call; the others are listed
   with their reasons. */
hga_status back_find(const hga_plan *plan, const hga_io *io, json_t **out)
{
    const char *name, *refusal, *way = NULL, *plain = NULL;
    const call_back c = call_like(io);
    int64_t bytes = 0;
    *out = NULL;
    hga_status st = hga_plan_prepare(plan, NULL, c.has ? &c.io : NULL, c.has ? &c.grad : NULL, &bytes);
    if (st) return st;
    json_t *refused = json_array();
    for (hga_id i = 0; (name = tried(plan, &c, i, &refusal)); i++) {
        if (refusal) json_array_append_new(refused, json_pack("{s:s, s:s}", "way", name, "why", refusal));
        if (way) continue;
        if (refusal)
            plain = refusal;
        else
            way = name, plain = tried(plan, &c, i + 1, NULL) ? NULL : plain; /* NULL: it is not the last */
    }
    *out = json_pack("{s:s?, s:s, s:o, s:I, s:I}", "plain", plain, "way", way, "refused", refused, "tape_bytes",
                     (json_int_t)hga_plan_tape_bytes(plan), "bytes", (json_int_t)bytes);
    return *out ? HGA_OK : hga_fail(HGA_ENOMEM, "no memory to find the backward pass");
}

static const char *text_of(const json_t *back, const char *key)
{
    return json_string_value(json_object_get(back, key));
}

static double kilobytes(const json_t *back, const char *key)
{
    return (double)json_integer_value(json_object_get(back, key)) / 1e3;
}

void back_say(FILE *f, const json_t *back)
{
    const char *plain = text_of(back, "plain"), *way = text_of(back, "way");
    size_t i;
    json_t *x;
    if (plain)
        fprintf(f, "gradient: %s: %s\n", way, plain);
    else
        fprintf(f, "gradient: in float, %s\n", way);
    json_array_foreach(json_object_get(back, "refused"), i, x)
        fprintf(f, "  not %s: %s\n", text_of(x, "way"), text_of(x, "why"));
    fprintf(f, "tape: %.1f kB an execution; gradient: %.1f kB while it runs\n", kilobytes(back, "tape_bytes"),
            kilobytes(back, "bytes"));
}
