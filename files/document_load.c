/* document_load.c: the bytes of a document's file. */
#include "hga_documents.h"
#include "load.h"

#include <string.h>

hga_status hga_document_load(const char *path, char **text, size_t *bytes)
{
    int64_t n, capacity;
    *bytes = 0;
    hga_status st = bytes_load(NULL, path, strcmp(path, "-") == 0 ? "standard input" : path, text, &n, &capacity);
    if (!st) st = hga_grow(NULL, text, &capacity, n, n + 1, 1);
    if (st) {
        hga_delete(NULL, *text, capacity, 1), *text = NULL;
        return st;
    }
    const int64_t mark = mark_bytes(*text, n);
    *bytes = (size_t)(n - mark);
    memmove(*text, *text + mark, *bytes);
    (*text)[*bytes] = 0;
    return HGA_OK;
}
