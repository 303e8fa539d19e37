/* element.h: the types that numbers have in files. */
#ifndef CLI_ELEMENT_H
#define CLI_ELEMENT_H

#include <stdint.h>

#include "hga_npy.h"

typedef enum element {
    ELEMENT_F16,
    ELEMENT_BF16,
    ELEMENT_F32,
    ELEMENT_F64,
    ELEMENT_I32,
    ELEMENT_I64,
    N_ELEMENTS
} element;

/* "float16", for messages; bytes of one; is it a floating-point number? */
const char *element_name(element e);
int element_bytes(element e);
int element_is_real(element e);
/* The type of a .npy header; 0 when it is none of ours. numpy writes bfloat16 as two bytes without a meaning, V2. */
int element_of_npy(const hga_npy *h, element *e);
/* What NumPy calls the type, of those that are not read as well ("uint8"); `room` is for the latter. */
enum { ELEMENT_NAME = 32 };
const char *element_name_of_npy(const hga_npy *h, char room[ELEMENT_NAME]);
/* A header of that type alone. */
hga_npy element_npy(element e);
/* The type of a .safetensors header, as "BF16"; 0 when it is none of ours. */
int element_of_safetensors(const char *name, element *e);
/* "f16 bf16 f32 f64", as --out-type has them; 0 when it is none. */
int element_of_option(const char *text, element *e);

#endif
