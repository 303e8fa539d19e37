/* npy.c: NumPy's array files: magic, version, length of a Python dictionary, the dictionary of three keys, the
   elements. */
#include "npy_format.h"
#include "load.h"
#include "sixteen.h"

#include <errno.h>
#include <string.h>

enum { MOST_HEADER = 1 << 16 };

/* ---- the header's dictionary ---- */

static const char *skip(const char *s)
{
    while (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r') s++;
    return s;
}

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* 'word' or "word" -> word; NULL when there is none */
static const char *read_quoted(const char *s, char *word, size_t capacity)
{
    char quote = *s;
    if (quote != '\'' && quote != '"') return NULL;
    size_t n = 0;
    for (s++; *s && *s != quote; s++) {
        if (n + 1 >= capacity) return NULL;
        word[n++] = *s;
    }
    word[n] = 0;
    return *s ? s + 1 : NULL;
}

/* '<i4' and the like; for texts the number counts characters. */
static const char *read_descr(const char *s, hga_npy *h)
{
    static const char *const known[] = {"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "b1", "V2"};
    char word[16];
    s = read_quoted(s, word, sizeof word);
    if (!s || !word[0] || !strchr("<>=|", word[0]) || !word[1]) return NULL;
    h->swapped = word[0] == '>', h->kind = word[1], h->size = 0;
    for (const char *c = word + 2; *c; c++) {
        if (!is_digit(*c) || h->size > 99999) return NULL;
        h->size = 10 * h->size + (*c - '0');
    }
    if (h->kind == 'U') h->size *= 4;
    if (h->kind == 'S' || h->kind == 'U') return h->size > 0 ? s : NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(word + 1, known[i]) == 0) return s;
    return NULL;
}

static const char *read_order(const char *s, hga_npy *h)
{
    h->fortran = strncmp(s, "True", 4) == 0;
    if (h->fortran) return s + 4;
    return strncmp(s, "False", 5) == 0 ? s + 5 : NULL;
}

/* (), (3,) or (3, 2) */
static const char *read_npy_shape(const char *s, hga_npy *h)
{
    if (*s != '(') return NULL;
    s = skip(s + 1);
    h->n_dims = 0;
    while (*s != ')') {
        if (h->n_dims == HGA_NPY_DIMS || !is_digit(*s)) return NULL;
        int64_t value = 0;
        for (; is_digit(*s); s++)
            if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *s - '0', &value))
                return NULL;
        h->dim[h->n_dims++] = value;
        s = skip(s);
        if (*s == ',')
            s = skip(s + 1);
        else if (*s != ')')
            return NULL;
    }
    return s + 1;
}

static const struct {
    const char *key, *wrong;
    const char *(*read)(const char *, hga_npy *);
} entries[] = {
    {"descr", "its type is not a number, truth value or text that hga reads", read_descr},
    {"fortran_order", "fortran_order is not True or False", read_order},
    {"shape", "its shape is not a tuple of at most 8 sizes", read_npy_shape},
};
enum { N_ENTRIES = sizeof entries / sizeof entries[0] };

/* the product of the sizes, which must also fit in memory as 8-byte numbers */
static int count_elements(hga_npy *h)
{
    h->count = 1;
    for (int i = 0; i < h->n_dims; i++)
        if (h->dim[i] == 0) h->count = 0;
    for (int i = 0; i < h->n_dims && h->count > 0; i++)
        if (__builtin_mul_overflow(h->count, h->dim[i], &h->count)) return 0;
    return h->count <= INT64_MAX / 16;
}

static hga_status wrong(const char *name, const char *what) { return hga_fail(HGA_EFORMAT, "%s: %s", name, what); }

/* Parses the header's dictionary: each key once, in any order, and no other. */
static hga_status parse_dictionary(const char *name, const char *text, hga_npy *h)
{
    unsigned seen = 0;
    const char *s = skip(text);
    if (*s++ != '{') return wrong(name, "its header is not a dictionary");
    for (s = skip(s); *s != '}'; s = skip(s)) {
        char key[32];
        s = read_quoted(s, key, sizeof key);
        size_t i = 0;
        while (s && i < N_ENTRIES && strcmp(key, entries[i].key) != 0) i++;
        if (!s || i == N_ENTRIES || seen & 1u << i)
            return wrong(name, "its header has an unknown, repeated or broken key");
        s = skip(s);
        if (*s++ != ':') return hga_fail(HGA_EFORMAT, "%s: its header has no value for '%s'", name, key);
        s = entries[i].read(skip(s), h);
        if (!s) return wrong(name, entries[i].wrong);
        seen |= 1u << i;
        s = skip(s);
        if (*s == ',')
            s++;
        else if (*s != '}')
            return hga_fail(HGA_EFORMAT, "%s: its header is broken after '%s'", name, key);
    }
    if (*skip(s + 1)) return wrong(name, "its header goes on after the dictionary");
    for (size_t i = 0; i < N_ENTRIES; i++)
        if (!(seen & 1u << i)) return hga_fail(HGA_EFORMAT, "%s: its header lacks '%s'", name, entries[i].key);
    return count_elements(h) ? HGA_OK : wrong(name, "its shape has more elements than any memory");
}

/* ---- the header's bytes ---- */

static hga_status read_bytes(const char *name, FILE *file, void *to, size_t n, const char *what)
{
    size_t got = fread(to, 1, n, file);
    if (got == n) return HGA_OK;
    if (ferror(file)) return hga_fail(HGA_EIO, "cannot read %s: %s", name, strerror(errno));
    return hga_fail(HGA_EFORMAT, "%s: ends inside %s, after %zu of %zu bytes", name, what, got, n);
}

/* Refuses a file that is not a .npy; its first 64 bytes may be those of a Git LFS pointer. */
static hga_status refuse_file(const char *name, const unsigned char lead[8], FILE *stream)
{
    unsigned char start[64];
    memcpy(start, lead, 8);
    hga_status st = check_fetched(name, start, (int64_t)(8 + fread(start + 8, 1, sizeof start - 8, stream)));
    return st ? st : wrong(name, "is not a .npy file");
}

hga_status hga_npy_read_header(const char *name, FILE *stream, hga_npy *out)
{
    unsigned char lead[8], size[4] = {0};
    char *text = NULL;
    uint32_t n = 0;
    hga_status st = HGA_OK;
    *out = (hga_npy){0};
    HGA_TRY(read_bytes(name, stream, lead, sizeof lead, "the first eight bytes of a .npy file"));
    if (memcmp(lead, "\x93NUMPY", 6) != 0) return refuse_file(name, lead, stream);
    if (lead[6] < 1 || lead[6] > 3 || lead[7] != 0)
        return hga_fail(HGA_EFORMAT, "%s: is .npy version %d.%d, not 1.0, 2.0 or 3.0", name, lead[6], lead[7]);
    HGA_TRY(read_bytes(name, stream, size, lead[6] == 1 ? 2 : 4, "the header's length"));
    n = (uint32_t)size[0] | (uint32_t)size[1] << 8 | (uint32_t)size[2] << 16 | (uint32_t)size[3] << 24;
    if (n > MOST_HEADER)
        return hga_fail(HGA_EFORMAT, "%s: says that its header has %u bytes, more than %d", name, n, MOST_HEADER);
    HGA_TRY(hga_new_zero(NULL, (int64_t)n + 1, 1, &text));
    HGA_TRY(read_bytes(name, stream, text, n, "its header"));
    if (strlen(text) != n) HGA_TRY(wrong(name, "its header has a zero byte"));
    HGA_TRY(parse_dictionary(name, text, out));
done:
    hga_delete(NULL, text, (int64_t)n + 1, 1);
    if (st) *out = (hga_npy){0};
    return st;
}

/* Padded so that the elements start at a multiple of 64. */
int hga_npy_header(const hga_npy *h, char bytes[HGA_NPY_HEADER_BYTES])
{
    char *text = bytes + 10, order = h->size == 1 ? '|' : h->swapped ? '>' : '<';
    int capacity = HGA_NPY_HEADER_BYTES - 10, size = h->kind == 'U' ? h->size / 4 : h->size;
    int used = snprintf(text, (size_t)capacity, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (", order,
                        h->kind, size);
    for (int i = 0; i < h->n_dims; i++)
        used += snprintf(text + used, (size_t)(capacity - used), "%s%lld", i ? ", " : "", (long long)h->dim[i]);
    used += snprintf(text + used, (size_t)(capacity - used), h->n_dims == 1 ? ",), }" : "), }");
    int whole = (10 + used + 1 + 63) / 64 * 64;
    memset(text + used, ' ', (size_t)(whole - 10 - used));
    bytes[whole - 1] = '\n';
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (char)((whole - 10) & 255), bytes[9] = (char)((whole - 10) >> 8);
    return whole;
}

/* ---- elements ---- */

/* The bytes as one little-endian word. */
static uint64_t word_of(const hga_npy *h, const void *element)
{
    const unsigned char *bytes = element;
    uint64_t word = 0;
    for (int i = 0; i < h->size; i++) word |= (uint64_t)bytes[h->swapped ? h->size - 1 - i : i] << 8 * i;
    return word;
}

hga_status hga_npy_whole(const hga_npy *h, const void *element, int64_t *out)
{
    *out = 0;
    if (h->kind != 'i' && h->kind != 'u' && h->kind != 'b')
        return hga_fail(HGA_EFORMAT, "the elements are no whole numbers");
    uint64_t word = word_of(h, element);
    int unused = 64 - 8 * h->size;
    *out = h->kind == 'i' ? (int64_t)(word << unused) >> unused : (int64_t)word;
    return h->kind == 'i' || *out >= 0 ? HGA_OK : hga_fail(HGA_EFORMAT, "a number does not fit 63 bits");
}

hga_status hga_npy_real(const hga_npy *h, const void *element, double *out)
{
    int64_t whole;
    if (h->kind != 'f' && h->kind != 'V') {
        hga_status st = hga_npy_whole(h, element, &whole);
        *out = (double)whole;
        return st;
    }
    uint64_t word = word_of(h, element);
    if (h->size == 8)
        memcpy(out, &word, sizeof word);
    else if (h->size == 4)
        *out = (double)sixteen_real((uint32_t)word);
    else
        *out = (double)(h->kind == 'V' ? widen_bf16((uint16_t)word) : widen_f16((uint16_t)word));
    return HGA_OK;
}

void hga_npy_put(const hga_npy *h, float value, void *element)
{
    unsigned char *bytes = element;
    double wide = (double)value;
    uint64_t word = 0;
    if (h->size == 8)
        memcpy(&word, &wide, sizeof word);
    else if (h->size == 4)
        word = sixteen_bits(value);
    else
        word = h->kind == 'V' ? narrow_bf16(value) : narrow_f16(value);
    for (int i = 0; i < h->size; i++) bytes[h->swapped ? h->size - 1 - i : i] = (unsigned char)(word >> 8 * i);
}

/* ---- texts ---- */

const char *hga_npy_type(const hga_npy *h, char text[HGA_NPY_TYPE_BYTES])
{
    const char *kind = h->kind == 'f' ? "float" : h->kind == 'i' ? "int" : "uint";
    if (h->kind == 'V') return "bfloat16";
    if (h->kind == 'b') return "bool";
    if (h->kind == 'S' || h->kind == 'U') return h->kind == 'S' ? "bytes" : "text";
    snprintf(text, HGA_NPY_TYPE_BYTES, "%s%d", kind, 8 * h->size);
    return text;
}

const char *hga_npy_shape(int n_dims, const int64_t *dim, char text[HGA_NPY_SHAPE_BYTES])
{
    const size_t capacity = HGA_NPY_SHAPE_BYTES;
    size_t used = (size_t)snprintf(text, capacity, "(");
    for (int i = 0; i < n_dims; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%lld", i ? ", " : "", (long long)dim[i]);
    snprintf(text + used, capacity - used, n_dims == 1 ? ",)" : ")");
    return text;
}

const char *hga_npy_index(const hga_npy *h, int64_t i, char text[HGA_NPY_SHAPE_BYTES])
{
    int64_t index[HGA_NPY_DIMS];
    for (int d = h->n_dims; d-- > 0; i /= h->dim[d]) index[d] = i % h->dim[d];
    return hga_npy_shape(h->n_dims, index, text);
}
