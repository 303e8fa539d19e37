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

int take(int64_t n, size_t size, void *out)
{
    void *memory = n <= (int64_t)1 << 28 ? calloc((size_t)(n > 0 ? n : 1), size) : NULL;
    memcpy(out, &memory, sizeof memory);
    return memory ? 0 : CLI_OUTSIDE;
}

static void write_and_read(const npy *a)
{
    char *text = NULL;
    size_t bytes = 0;
    npy again;
    FILE *file = open_memstream(&text, &bytes);
    if (!file || npy_write_real(file, a->real, a->n_dims, a->dim) || fclose(file)) fuzz_fail("not written");
    if (npy_read_real(fuzz_file((uint8_t *)text, bytes), &again)) fuzz_fail("not read again");
    if (again.count != a->count || again.n_dims != a->n_dims ||
        (a->count && memcmp(again.real, a->real, (size_t)a->count * sizeof *a->real) != 0))
        fuzz_fail("not the same after writing and reading");
    npy_clear(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    npy a;
    if (npy_read_real(fuzz_file(data, size), &a) == 0) {
        int64_t count = 1;
        for (int i = 0; i < a.n_dims; i++) count *= a.dim[i];
        if (count != a.count) fuzz_fail("%lld elements for a shape of %lld", (long long)a.count, (long long)count);
        for (int64_t i = 0; i < a.count; i++)
            if (!isfinite(a.real[i])) fuzz_fail("element %lld is not finite", (long long)i);
        write_and_read(&a);
        npy_clear(&a);
    }
    if (npy_read_whole(fuzz_file(data, size), &a) == 0) npy_clear(&a);
    return 0;
}
