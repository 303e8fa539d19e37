/* texts.c: the names of an import, stored consecutively. */
#include "import.h"
#include "scan.h"
#include "load.h"

#include <string.h>

/* Stores a text until the import is closed and returns its offset. */
hga_status import_text(import *x, const char *text, int64_t n, int64_t *at)
{
    if (!is_utf8(text, n)) return scan_wrong(x, "a name is not UTF-8");
    hga_status st = hga_grow(x->allocator, &x->text.at, &x->text.capacity, x->text.bytes, x->text.bytes + n + 1, 1);
    if (st) return st;
    *at = x->text.bytes;
    if (n) memcpy(x->text.at + *at, text, (size_t)n);
    x->text.at[*at + n] = 0;
    x->text.bytes += n + 1;
    return HGA_OK;
}
