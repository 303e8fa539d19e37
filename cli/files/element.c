/* element.c: names of types. */
#include <stdio.h>
#include <string.h>

#include "npy.h"

static const struct known {
    const char *safetensors, *option; /* option NULL: of no output */
    element is;
} all_known[] = {
    {"F16", "f16", {.kind = 'f', .size = 2}}, {"BF16", "bf16", {.kind = 'V', .size = 2}},
    {"F32", "f32", {.kind = 'f', .size = 4}}, {"F64", "f64", {.kind = 'f', .size = 8}},
    {"I32", NULL, {.kind = 'i', .size = 4}},  {"I64", NULL, {.kind = 'i', .size = 8}},
};
static const struct known *const end_of_known = all_known + sizeof all_known / sizeof *all_known;

const char *element_name(const hga_npy *h, char room[ELEMENT_NAME])
{
    const char *kind = h->kind == 'f' ? "float" : h->kind == 'i' ? "int" : "uint";
    if (h->kind == 'V') return "bfloat16";
    if (h->kind == 'b') return "bool";
    if (h->kind == 'S' || h->kind == 'U') return h->kind == 'S' ? "bytes" : "text";
    snprintf(room, ELEMENT_NAME, "%s%d", kind, 8 * h->size);
    return room;
}

int element_is_real(const hga_npy *h) { return h->kind == 'f' || h->kind == 'V'; }

int element_is_read(const hga_npy *h) { return element_is_real(h) || (h->kind == 'i' && h->size >= 4); }

int element_of_safetensors(const char *name, element *e)
{
    for (const struct known *k = all_known; k < end_of_known; k++)
        if (strcmp(k->safetensors, name) == 0) return *e = k->is, 1;
    return 0;
}

int element_of_option(const char *text, element *e)
{
    for (const struct known *k = all_known; k < end_of_known; k++)
        if (k->option && strcmp(k->option, text) == 0) return *e = k->is, 1;
    return 0;
}
