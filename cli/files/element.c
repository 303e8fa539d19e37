/* element.c: sixteen, thirty-two and sixty-four bits. */
#include "element.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name, *descr, *safetensors, *option;
    int bytes;
} elements[N_ELEMENTS] = {
    [ELEMENT_F16] = {"float16", "<f2", "F16", "f16", 2}, [ELEMENT_BF16] = {"bfloat16", "<V2", "BF16", "bf16", 2},
    [ELEMENT_F32] = {"float32", "<f4", "F32", "f32", 4}, [ELEMENT_F64] = {"float64", "<f8", "F64", "f64", 8},
    [ELEMENT_I32] = {"int32", "<i4", "I32", "", 4},      [ELEMENT_I64] = {"int64", "<i8", "I64", "", 8},
};

const char *element_name(element e) { return elements[e].name; }

int element_bytes(element e) { return elements[e].bytes; }

int element_is_real(element e) { return e <= ELEMENT_F64; }

const char *element_descr(element e) { return elements[e].descr; }

int element_of_descr(const char *descr, element *e, int *swapped)
{
    if (strlen(descr) != 3 || !strchr("<>=|", descr[0])) return 0;
    *swapped = descr[0] == '>';
    for (int i = 0; i < N_ELEMENTS; i++)
        if (strcmp(elements[i].descr + 1, descr + 1) == 0 && (descr[0] != '|' || i == ELEMENT_BF16))
            return *e = (element)i, 1;
    return 0;
}

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

/* the bytes as one little-endian word */
static uint64_t word_of(element e, const unsigned char *bytes, int swapped)
{
    uint64_t word = 0;
    int n = element_bytes(e);
    for (int i = 0; i < n; i++) word |= (uint64_t)bytes[swapped ? n - 1 - i : i] << 8 * i;
    return word;
}

static double real_of_half(uint64_t half)
{
    int exponent = (int)(half >> 10 & 31);
    double mantissa = (double)(half & 1023), size;
    if (exponent == 31)
        size = mantissa > 0 ? NAN : INFINITY;
    else
        size = exponent ? ldexp(mantissa + 1024, exponent - 25) : ldexp(mantissa, -24);
    return half >> 15 ? -size : size;
}

double element_real(element e, const unsigned char *bytes, int swapped)
{
    uint64_t word = word_of(e, bytes, swapped);
    float single;
    double x;
    if (e == ELEMENT_F16) return real_of_half(word);
    if (e == ELEMENT_F64) return memcpy(&x, &word, sizeof x), x;
    uint32_t bits = e == ELEMENT_BF16 ? (uint32_t)word << 16 : (uint32_t)word;
    memcpy(&single, &bits, sizeof single);
    return (double)single;
}

int64_t element_whole(element e, const unsigned char *bytes, int swapped)
{
    uint64_t word = word_of(e, bytes, swapped);
    return e == ELEMENT_I32 ? (int32_t)(uint32_t)word : (int64_t)word;
}

static uint64_t half_of(double x)
{
    uint64_t sign = signbit(x) ? 1u << 15 : 0;
    x = fabs(x);
    if (isnan(x)) return sign | 0x7E00;
    if (x >= 65520) return sign | 0x7C00;
    if (x < ldexp(1, -14)) return sign | (uint64_t)nearbyint(ldexp(x, 24));
    int exponent = ilogb(x);
    /* a mantissa that is rounded up to 2048 carries into the exponent by itself */
    return sign | (((uint64_t)(exponent + 15) << 10) + (uint64_t)nearbyint(ldexp(x, 10 - exponent)) - 1024);
}

static uint64_t bfloat_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x)) return 0x7FC0;
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

void element_put(element e, float value, unsigned char bytes[static 8])
{
    uint64_t word = 0;
    double wide = (double)value;
    if (e == ELEMENT_F16)
        word = half_of(wide);
    else if (e == ELEMENT_BF16)
        word = bfloat_of(value);
    else if (e == ELEMENT_F64)
        memcpy(&word, &wide, sizeof wide);
    else
        memcpy(&word, &value, sizeof value);
    for (int i = 0; i < element_bytes(e); i++) bytes[i] = (unsigned char)(word >> 8 * i);
}
