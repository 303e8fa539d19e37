/* call_tensors.c: checks a tensor of a call by what the plan asks of it, and describes it as an array. */
#include "call_tensors.h"
#include "bindings.h"
#include "call.h"
#include "plan.h"

call_tensor tensor_of_field(const hga_plan *plan, hga_id field, const hga_tensor *tensor, const char *what)
{
    const field_storage *h = &plan->fields.storage[field];
    return (call_tensor){.what = what,
                         .name = plan->program.field[field].name,
                         .tensor = tensor,
                         .needed = h->input_n,
                         .rows = h->input_n,
                         .heads = h->heads,
                         .columns = h->columns};
}

call_tensor tensor_of_output(const hga_plan *plan, const hga_tensor *tensor, const char *what, hga_id columns)
{
    call_tensor x = tensor_of_field(plan, program_bound(&plan->program, HGA_IO_OUT), tensor, what);
    x.name = "", x.columns = columns;
    return x;
}

static hga_status refuse(const call_tensor *t, hga_status st, const char *why)
{
    return hga_fail(st, "%s%s%s %s", t->what, *t->name ? " " : "", t->name, why);
}

static hga_status check_type(const call_tensor *t)
{
    const hga_dtype type = t->tensor->dtype;
    const int fits = t->is & TENSOR_IS_FLOAT32 ? type == HGA_F32 : (unsigned)type <= HGA_BF16;
    if (fits) return HGA_OK;
    return hga_fail(HGA_EUNSUPPORTED, "%s%s%s has dtype %d, not float32%s", t->what, *t->name ? " " : "", t->name,
                    (int)type, t->is & TENSOR_IS_FLOAT32 ? "" : ", float16 or bfloat16");
}

static hga_status check_address(const call_tensor *t)
{
    const size_t size = dtype_bytes(t->tensor->dtype), beyond = (uintptr_t)t->tensor->data % size;
    if (!beyond) return HGA_OK;
    return hga_fail(HGA_EINVAL, "%s%s%s starts %zu bytes past a multiple of %zu", t->what, *t->name ? " " : "", t->name,
                    beyond, size);
}

static hga_status check_rows(const call_tensor *t)
{
    if (t->tensor->rows >= t->needed) return HGA_OK;
    return hga_fail(HGA_EINVAL, "%s%s%s has %lld rows, the program needs %d", t->what, *t->name ? " " : "", t->name,
                    (long long)t->tensor->rows, t->needed);
}

hga_status call_tensor_check(const hga_plan *plan, const call_tensor *t)
{
    hga_status st = HGA_OK;
    if (!t->tensor->data && t->is & TENSOR_IS_NEEDED && t->needed > 0) return refuse(t, HGA_EINVAL, "is missing");
    if (!t->tensor->data) return HGA_OK;
    HGA_TRY(check_type(t));
    HGA_TRY(check_address(t));
    HGA_TRY(tensor_check_fold(t->tensor, t->heads, t->columns, t->what, t->name));
    if (t->tensor->fold && t->is & TENSOR_IS_UNFOLDED) return refuse(t, HGA_EUNSUPPORTED, "is folded");
    if (t->tensor->fold && plan_is_shared(plan)) return refuse(t, HGA_EUNSUPPORTED, "is folded, on ranks");
    HGA_TRY(check_rows(t));
done:
    return st;
}

hga_status call_tensor_array(const call_tensor *t, io_array *out)
{
    return array_of_tensor(t->what, t->name, t->tensor, t->first, t->rows, t->heads, t->columns, out);
}

io_array call_table_array(const hga_plan *plan, const hga_io *io, hga_call_table table, const float *data,
                          const char *what)
{
    const int64_t n = hga_call_entries(table, &plan->shape, plan->nodes.n, io);
    const char *name = call_row(table)->name;
    return array_of_block(*what ? what : name, *what ? name : "", data, n * (int64_t)sizeof *data);
}
