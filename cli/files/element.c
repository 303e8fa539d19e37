/* element.c: names of types. */
#include "element.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *safetensors, *option;
    char kind; /* as hga_npy has it */
    int bytes;
} elements[N_ELEMENTS] = {
    [ELEMENT_F16] = {"float16", "F16", "f16", 'f', 2}, [ELEMENT_BF16] = {"bfloat16", "BF16", "bf16", 'V', 2},
    [ELEMENT_F32] = {"float32", "F32", "f32", 'f', 4}, [ELEMENT_F64] = {"float64", "F64", "f64", 'f', 8},
    [ELEMENT_I32] = {"int32", "I32", "", 'i', 4},      [ELEMENT_I64] = {"int64", "I64", "", 'i', 8},
};

const char *element_name(element e) { return elements[e].name; }

int element_bytes(element e) { return elements[e].bytes; }

int element_is_real(element e) { return e <= ELEMENT_F64; }

int element_of_npy(const hga_npy *h, element *e)
{
    for (int i = 0; i < N_ELEMENTS; i++)
        if (elements[i].kind == h->kind && elements[i].bytes == h->size) return *e = (element)i, 1;
    return 0;
}

const char *element_name_of_npy(const hga_npy *h, char room[ELEMENT_NAME])
{
    element e;
    if (element_of_npy(h, &e)) return element_name(e);
    if (h->kind == 'b') return "bool";
    if (h->kind == 'S' || h->kind == 'U') return h->kind == 'S' ? "bytes" : "text";
    snprintf(room, ELEMENT_NAME, "%s%d", h->kind == 'u' ? "uint" : h->kind == 'i' ? "int" : "float", 8 * h->size);
    return room;
}

hga_npy element_npy(element e) { return (hga_npy){.kind = elements[e].kind, .size = elements[e].bytes}; }

int element_of_safetensors(const char *name, element *e)
{
    for (int i = 0; i < N_ELEMENTS; i++)
        if (strcmp(elements[i].safetensors, name) == 0) return *e = (element)i, 1;
    return 0;
}

int element_of_option(const char *text, element *e)
{
    for (int i = 0; i <= ELEMENT_F64; i++)
        if (strcmp(elements[i].option, text) == 0) return *e = (element)i, 1;
    return 0;
}
