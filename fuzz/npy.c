/* npy.c: any bytes as an array. What is accepted has the elements that its shape says, all finite, and is the same
   after it was written and read again. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "npy.h"

/* In place of the tool's own, which prints. */
int complain(int status, const char *format, ...)
{
    char line[1000];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(line, sizeof line, format, arguments) <= 0) fuzz_fail("refused without a word");
    va_end(arguments);
    return status;
}

int complain_of(hga_status st, int blame, const char *about)
{
    (void)blame, (void)about;
    if (st && !hga_error_detail()[0]) fuzz_fail("refused without a word");
    return (int)st;
}

int take(int64_t n, size_t size, void *out)
{
    void *memory = n <= (int64_t)1 << 28 ? calloc((size_t)(n > 0 ? n : 1), size) : NULL;
    memcpy(out, &memory, sizeof memory);
    return memory ? 0 : CLI_OUTSIDE;
}

/* The same array as numpy would write it, read again. */
static void write_and_read(const npy *a)
{
    char header[400], shape[200] = "";
    npy again;
    for (int i = 0; i < a->n_dims; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%lld, ", (long long)a->dim[i]);
    int length = snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }\n", shape);
    size_t lead = 10 + (size_t)length, bytes = lead + (size_t)a->count * sizeof(float);
    uint8_t *text = malloc(bytes);
    if (!text) fuzz_fail("no memory for %zu bytes", bytes);
    memcpy(text, "\x93NUMPY\1\0", 8);
    text[8] = (uint8_t)(length & 255), text[9] = (uint8_t)(length >> 8);
    memcpy(text + 10, header, (size_t)length);
    if (a->count) memcpy(text + lead, a->real, (size_t)a->count * sizeof(float));
    if (npy_read(fuzz_file(text, bytes), NPY_REAL, &again)) fuzz_fail("not read again: %s", header);
    if (again.count != a->count || again.n_dims != a->n_dims ||
        (a->count && memcmp(again.real, a->real, (size_t)a->count * sizeof *a->real) != 0))
        fuzz_fail("not the same after writing and reading");
    npy_clear(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    npy a;
    if (npy_read(fuzz_file(data, size), NPY_REAL, &a) == 0) {
        int64_t count = 1;
        for (int i = 0; i < a.n_dims; i++) count *= a.dim[i];
        if (count != a.count) fuzz_fail("%lld elements for a shape of %lld", (long long)a.count, (long long)count);
        for (int64_t i = 0; i < a.count; i++)
            if (!isfinite(a.real[i])) fuzz_fail("element %lld is not finite", (long long)i);
        write_and_read(&a);
        npy_clear(&a);
    }
    if (npy_read(fuzz_file(data, size), NPY_WHOLE, &a) == 0) npy_clear(&a);
    return 0;
}
