/* jax.c: handlers of XLA's typed interface. Nothing here but what that interface has had from its first version on. */
#include "jax_call.h"

#include <stdio.h>
#include <string.h>
#include <xla/ffi/api/c_api.h>

static int spoken_minor = XLA_FFI_API_MINOR;

hga_status hga_py_jax_speak(int major, int minor)
{
    if (major != XLA_FFI_API_MAJOR)
        return hga_fail(HGA_EUNSUPPORTED, "hga was built for XLA's interface %d.%d, jaxlib has %d.%d",
                        XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR, major, minor);
    spoken_minor = minor < XLA_FFI_API_MINOR ? minor : XLA_FFI_API_MINOR;
    return HGA_OK;
}

/* ---- errors ---- */

static XLA_FFI_Error_Code code_of(hga_status status)
{
    switch (status) {
    case HGA_EUNSUPPORTED: return XLA_FFI_Error_Code_UNIMPLEMENTED;
    case HGA_ENOMEM: return XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
    case HGA_EIO:
    case HGA_EEXTERNAL: return XLA_FFI_Error_Code_INTERNAL;
    default: return XLA_FFI_Error_Code_INVALID_ARGUMENT;
    }
}

static XLA_FFI_Error *answer(const XLA_FFI_CallFrame *frame, hga_status status)
{
    char text[1200];
    if (!status) return NULL;
    snprintf(text, sizeof text, "hga: %s", hga_error_detail());
    XLA_FFI_Error_Create_Args args = {
        .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE, .message = text, .errc = code_of(status)};
    return frame->api->XLA_FFI_Error_Create(&args);
}

/* ---- attributes ---- */

/* The value of an attribute of that name and type. */
static hga_status find_attribute(const XLA_FFI_CallFrame *frame, const char *name, XLA_FFI_AttrType type,
                                 const void **out)
{
    const XLA_FFI_Attrs *all = &frame->attrs;
    size_t n = strlen(name);
    for (int64_t i = 0; i < all->size; i++)
        if (all->names[i]->len == n && memcmp(all->names[i]->ptr, name, n) == 0 && all->types[i] == type) {
            *out = all->attrs[i];
            return HGA_OK;
        }
    return hga_fail(HGA_EINVAL, "the program's call has no attribute '%s'", name);
}

static hga_status find_text(const XLA_FFI_CallFrame *frame, const char *name, const XLA_FFI_ByteSpan **out)
{
    const void *found = NULL;
    hga_status st = find_attribute(frame, name, XLA_FFI_AttrType_STRING, &found);
    *out = found;
    return st;
}

/* The array of numbers that describes the call, if this release's Python wrote it. */
static hga_status find_numbers(const XLA_FFI_CallFrame *frame, const int64_t **out)
{
    const void *found = NULL;
    hga_status st = find_attribute(frame, "numbers", XLA_FFI_AttrType_ARRAY, &found);
    if (st) return st;
    const XLA_FFI_Array *a = found;
    if (a->dtype != XLA_FFI_DataType_S64 || a->size != HGA_PY_N_NUMBERS ||
        ((const int64_t *)a->data)[HGA_PY_FORM] != HGA_PY_THIS_FORM)
        return hga_fail(HGA_EUNSUPPORTED, "the program was written by another release of hga: export it anew");
    *out = a->data;
    return HGA_OK;
}

/* The plan for what the call's attributes describe, which other calls of the same kind share. */
static hga_status find_cached(const XLA_FFI_CallFrame *frame, const int64_t *number, hga_py_cached **out)
{
    const XLA_FFI_ByteSpan *isa = NULL, *hierarchy = NULL;
    const void *dropout = NULL;
    hga_status st = find_text(frame, "isa", &isa);
    if (!st) st = find_text(frame, "hierarchy", &hierarchy);
    if (!st) st = find_attribute(frame, "dropout", XLA_FFI_AttrType_SCALAR, &dropout);
    if (st) return st;
    const XLA_FFI_Scalar *p = dropout;
    if (p->dtype != XLA_FFI_DataType_F64) return hga_fail(HGA_EINVAL, "dropout is no float64");
    hga_py_kind kind = {.number = number,
                        .isa = isa->ptr,
                        .isa_bytes = (int64_t)isa->len,
                        .hierarchy = hierarchy->ptr,
                        .hierarchy_bytes = (int64_t)hierarchy->len};
    memcpy(&kind.dropout, p->value, sizeof kind.dropout);
    return hga_py_cache(&kind, out);
}

/* ---- arrays ---- */

/* An array of XLA's by its sizes and type; only the seed and the list of wanted gradients are of uint32. */
static hga_status take_array(const XLA_FFI_Buffer *b, const char *name, jax_array *out)
{
    *out = (jax_array){.data = b->data, .rank = (int)b->rank, .dims = b->dims, .bytes = 4};
    switch (b->dtype) {
    case XLA_FFI_DataType_F16: out->dtype = HGA_F16, out->bytes = 2; break;
    case XLA_FFI_DataType_BF16: out->dtype = HGA_BF16, out->bytes = 2; break;
    case XLA_FFI_DataType_F32:
    case XLA_FFI_DataType_U32: break;
    default: return hga_fail(HGA_EINVAL, "%s has a type that hga does not take", name);
    }
    return HGA_OK;
}

/* Operands, or results, one after the other. */
typedef struct cursor {
    void **buffers;
    int64_t left;
} cursor;

static hga_status take(cursor *c, const char *name, jax_array *out)
{
    if (c->left <= 0) return hga_fail(HGA_EINVAL, "the program's call has no %s", name);
    c->left--;
    return take_array(*c->buffers++, name, out);
}

static hga_status take_tape(cursor *c, jax_array *out)
{
    if (c->left <= 0) return hga_fail(HGA_EINVAL, "the program's call has no tape");
    const XLA_FFI_Buffer *b = *c->buffers++;
    c->left--;
    *out = (jax_array){.data = b->data, .rank = (int)b->rank, .dims = b->dims, .bytes = 1};
    return b->dtype == XLA_FFI_DataType_U8 ? HGA_OK : hga_fail(HGA_EINVAL, "the tape is no array of bytes");
}

/* The next word of a list; 0 at its end. */
static int next_word(const XLA_FFI_ByteSpan *list, size_t *at, char word[64])
{
    size_t n = 0;
    while (*at < list->len && list->ptr[*at] == ' ') ++*at;
    while (*at < list->len && list->ptr[*at] != ' ' && n < 63) word[n++] = list->ptr[(*at)++];
    word[n] = 0;
    return n > 0;
}

/* The operands that are tables, by the names that the call lists. */
static hga_status take_tables(const XLA_FFI_CallFrame *frame, cursor *operands, jax_call *call)
{
    const XLA_FFI_ByteSpan *names = NULL;
    char name[64];
    hga_status st = find_text(frame, "tables", &names);
    for (size_t at = 0; !st && next_word(names, &at, name);) {
        const hga_call_row *row = hga_call_table_named(name);
        st = row ? take(operands, name, &call->inputs[row - hga_call_tables()])
                 : hga_fail(HGA_EINVAL, "no table is called '%s'", name);
    }
    return st;
}

/* The result of a gradient: its place where it is wanted, else zeros. */
static hga_status take_gradient(cursor *results, const char *name, int outputs, jax_call *call)
{
    static const char *const inputs[] = {"query", "key", "value"};
    const hga_call_row *row = hga_call_table_named(name);
    jax_array found = {.rank = 0}, *to = row ? &call->outputs[row - hga_call_tables()] : NULL;
    for (int i = 0; i < 3; i++)
        if (strcmp(name, inputs[i]) == 0) to = &call->at[JAX_D_QUERY + i];
    hga_status st = to ? take(results, name, &found) : hga_fail(HGA_EINVAL, "there is no gradient of '%s'", name);
    if (st) return st;
    if (outputs)
        *to = found;
    else
        memset(found.data, 0, (size_t)jax_bytes(&found));
    return HGA_OK;
}

/* Bits of the gradients that some sample wants: under vmap those are zeros that took another branch of a lax.cond. */
static uint32_t bits_of_outputs(const jax_array *x)
{
    uint32_t all = 0, one = 0;
    for (int64_t at = 0; at + (int64_t)sizeof one <= jax_bytes(x); at += (int64_t)sizeof one)
        memcpy(&one, x->data + at, sizeof one), all |= one;
    return all;
}

static hga_status take_gradients(const XLA_FFI_CallFrame *frame, cursor *results, jax_call *call)
{
    const XLA_FFI_ByteSpan *names = NULL;
    uint32_t outputs = bits_of_outputs(&call->at[JAX_OUTPUTS]);
    char name[64];
    hga_status st = find_text(frame, "gradients", &names);
    for (size_t at = 0; !st && next_word(names, &at, name); outputs >>= 1)
        st = take_gradient(results, name, (int)(outputs & 1u), call);
    return st;
}

static hga_status take_inputs(cursor *operands, jax_call *call)
{
    hga_status st = take(operands, "query", &call->at[JAX_QUERY]);
    if (!st) st = take(operands, "key", &call->at[JAX_KEY]);
    if (!st) st = take(operands, "value", &call->at[JAX_VALUE]);
    return st ? st : take(operands, "seed", &call->at[JAX_SEED]);
}

/* Operands and results of a forward call: lse and tape only where its attribute has their letters. */
static hga_status take_forward(const XLA_FFI_CallFrame *frame, jax_call *call)
{
    cursor operands = {frame->args.args, frame->args.size}, results = {frame->rets.rets, frame->rets.size};
    const XLA_FFI_ByteSpan *extra = NULL;
    hga_status st = take_inputs(&operands, call);
    if (!st) st = take_tables(frame, &operands, call);
    if (!st) st = find_text(frame, "results", &extra);
    if (!st) st = take(&results, "out", &call->at[JAX_OUT]);
    if (!st && memchr(extra->ptr, 'l', extra->len)) st = take(&results, "lse", &call->at[JAX_LSE]);
    if (!st && memchr(extra->ptr, 't', extra->len)) st = take_tape(&results, &call->at[JAX_TAPE]);
    return st;
}

/* Operands and results of a backward call, in the order in which Python passes them. */
static hga_status take_backward(const XLA_FFI_CallFrame *frame, jax_call *call)
{
    cursor operands = {frame->args.args, frame->args.size}, results = {frame->rets.rets, frame->rets.size};
    const XLA_FFI_ByteSpan *extra = NULL;
    call->is_back = 1;
    hga_status st = take_inputs(&operands, call);
    if (!st) st = find_text(frame, "results", &extra);
    if (!st) st = take(&operands, "list of gradients", &call->at[JAX_OUTPUTS]);
    if (!st) st = take(&operands, "out", &call->at[JAX_OUT]);
    if (!st) st = take_tape(&operands, &call->at[JAX_TAPE]);
    if (!st) st = take(&operands, "d_out", &call->at[JAX_D_OUT]);
    if (!st && memchr(extra->ptr, 'l', extra->len)) st = take(&operands, "d_lse", &call->at[JAX_D_LSE]);
    if (!st) st = take_tables(frame, &operands, call);
    return st ? st : take_gradients(frame, &results, call);
}

/* ---- handlers ---- */

/* XLA asks which version this is. */
static int is_requested(const XLA_FFI_CallFrame *frame)
{
    XLA_FFI_Extension_Base *requested = frame->extension_start;
    if (!requested || requested->type != XLA_FFI_Extension_Metadata) return 0;
    XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)(void *)requested)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = spoken_minor;
    return 1;
}

typedef hga_status taker(const XLA_FFI_CallFrame *, jax_call *);

/* A call of XLA's: which plan, which arrays, are they right, and then the library. */
static hga_status run(const XLA_FFI_CallFrame *frame, taker *take_all)
{
    jax_call call = {.number = NULL};
    hga_status st = find_numbers(frame, &call.number);
    if (!st) st = find_cached(frame, call.number, &call.kept);
    if (st) return st;
    st = take_all(frame, &call);
    if (!st) st = jax_check(&call);
    if (!st) st = jax_run(&call);
    hga_py_release(call.kept);
    return st;
}

static XLA_FFI_Error *instantiate(XLA_FFI_CallFrame *frame)
{
    const int64_t *number = NULL;
    hga_py_cached *kept = NULL;
    if (is_requested(frame)) return NULL;
    hga_status st = find_numbers(frame, &number);
    if (!st) st = find_cached(frame, number, &kept);
    if (!st) hga_py_release(kept);
    return answer(frame, st);
}

static XLA_FFI_Error *forward(XLA_FFI_CallFrame *frame)
{
    return is_requested(frame) ? NULL : answer(frame, run(frame, take_forward));
}

static XLA_FFI_Error *backward(XLA_FFI_CallFrame *frame)
{
    return is_requested(frame) ? NULL : answer(frame, run(frame, take_backward));
}

void *hga_py_jax_handler(int which)
{
    static XLA_FFI_Handler *const handlers[] = {instantiate, forward, backward};
    void *found;
    memcpy(&found, &handlers[which], sizeof found);
    return found;
}
