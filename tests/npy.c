/* npy.c: a tool for the shell tests, to make .npy files, take rows from them and compare two.

     npy make FILE DTYPE SHAPE VALUES    DTYPE f4 f8 i4 i8, SHAPE like 20,2,8 (a single - for a scalar),
                                         VALUES random:SEED or a list like 3,-1,nan that is repeated to fill the shape
     npy raw FILE HEADER BYTES           version 1.0 with that header text and so many zero bytes
     npy rows FILE FIRST N OUT           rows [FIRST, FIRST + N) of the first axis
     npy compare A B TOLERANCE           0 when dtype and shape are equal and no value differs by more;
                                         0 as tolerance asks for equal bits
     npy print FILE                      "DTYPE SHAPE", then the values, one row a line */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_AXES = 8 };

typedef struct array {
    char dtype[3];
    int n_axes;
    long shape[MAX_AXES];
    long n, bytes_each;
    unsigned char *data;
} array;

_Noreturn static void die(const char *what, const char *which)
{
    fprintf(stderr, "npy: %s: %s\n", what, which);
    exit(2);
}

static void *allocate(size_t bytes)
{
    void *p = malloc(bytes + 1);
    if (!p) die("no memory", "");
    return p;
}

/* ---- files ---- */

/* Magic, version 1.0 and a header padded to 64 bytes. */
static FILE *begin(const char *path, const char *header)
{
    FILE *f = fopen(path, "wb");
    if (!f) die("cannot write", path);
    size_t length = strlen(header) + 1, total = (10 + length + 63) / 64 * 64 - 10;
    const unsigned char front[] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(total & 255), (unsigned char)(total >> 8)};
    fwrite(front, 1, sizeof front, f);
    fprintf(f, "%s%*s\n", header, (int)(total - length), "");
    return f;
}

static void save(const char *path, const array *a)
{
    char header[256], shape[128] = "";
    for (int i = 0; i < a->n_axes; i++) {
        size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, "%ld%s", a->shape[i],
                 i + 1 < a->n_axes ? ", "
                 : a->n_axes == 1  ? ","
                                   : "");
    }
    snprintf(header, sizeof header, "{'descr': '<%s', 'fortran_order': False, 'shape': (%s), }", a->dtype, shape);
    FILE *f = begin(path, header);
    fwrite(a->data, (size_t)a->bytes_each, (size_t)a->n, f);
    if (fclose(f)) die("cannot write", path);
}

static void measure(array *a)
{
    a->bytes_each = a->dtype[1] - '0';
    a->n = 1;
    for (int i = 0; i < a->n_axes; i++) a->n *= a->shape[i];
}

static array load(const char *path)
{
    FILE *f = fopen(path, "rb");
    unsigned char front[10];
    if (!f || fread(front, 1, 10, f) != 10) die("cannot read", path);
    size_t length = front[8] + 256u * front[9];
    char *header = allocate(length);
    if (fread(header, 1, length, f) != length) die("short header", path);
    header[length] = 0;
    array a = {0};
    const char *descr = strstr(header, "'descr': '<"), *shape = strstr(header, "'shape': (");
    if (!descr || !shape || !strstr(header, "'fortran_order': False")) die("unknown header", path);
    memcpy(a.dtype, descr + strlen("'descr': '<"), 2);
    for (const char *p = shape + strlen("'shape': ("); *p && *p != ')' && a.n_axes < MAX_AXES;) {
        char *end;
        long extent = strtol(p, &end, 10);
        if (end == p) {
            p++;
            continue;
        }
        a.shape[a.n_axes++] = extent, p = end;
    }
    measure(&a);
    a.data = allocate((size_t)(a.n * a.bytes_each));
    if (fread(a.data, (size_t)a.bytes_each, (size_t)a.n, f) != (size_t)a.n || fgetc(f) != EOF)
        die("not as long as its header says", path);
    fclose(f);
    free(header);
    return a;
}

/* ---- values ---- */

static double value(const array *a, long i)
{
    const unsigned char *p = a->data + i * a->bytes_each;
    float f4;
    double f8;
    int32_t i4;
    int64_t i8;
    if (!strcmp(a->dtype, "f4")) return memcpy(&f4, p, 4), (double)f4;
    if (!strcmp(a->dtype, "f8")) return memcpy(&f8, p, 8), f8;
    if (!strcmp(a->dtype, "i4")) return memcpy(&i4, p, 4), (double)i4;
    if (!strcmp(a->dtype, "i8")) return memcpy(&i8, p, 8), (double)i8;
    die("unknown dtype", a->dtype);
}

static void set(array *a, long i, double x)
{
    unsigned char *p = a->data + i * a->bytes_each;
    if (!strcmp(a->dtype, "f4"))
        memcpy(p, &(float){(float)x}, 4);
    else if (!strcmp(a->dtype, "f8"))
        memcpy(p, &x, 8);
    else if (!strcmp(a->dtype, "i4"))
        memcpy(p, &(int32_t){(int32_t)x}, 4);
    else if (!strcmp(a->dtype, "i8"))
        memcpy(p, &(int64_t){(int64_t)x}, 8);
    else
        die("unknown dtype", a->dtype);
}

/* Value i of a splitmix64 stream in [-1, 1). */
static double random_value(uint64_t seed, long i)
{
    uint64_t z = seed + (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (double)(z >> 40) * 0x1p-24 * 2 - 1;
}

static void fill(array *a, const char *values)
{
    if (!strncmp(values, "random:", 7)) {
        for (long i = 0; i < a->n; i++) set(a, i, random_value(strtoull(values + 7, NULL, 10), i));
        return;
    }
    const char *p = values;
    for (long i = 0; i < a->n; i++) {
        char *end;
        set(a, i, strtod(p, &end));
        if (end == p) die("not a list of numbers", values);
        p = *end == ',' ? end + 1 : values;
    }
}

/* ---- commands ---- */

static int make(char **word)
{
    array a = {0};
    snprintf(a.dtype, sizeof a.dtype, "%s", word[1]);
    for (char *p = word[2]; *p && *p != '-' && a.n_axes < MAX_AXES;) {
        char *end;
        a.shape[a.n_axes++] = strtol(p, &end, 10);
        if (end == p) die("not a shape", word[2]);
        p = *end == ',' ? end + 1 : end;
    }
    measure(&a);
    a.data = allocate((size_t)(a.n * a.bytes_each));
    fill(&a, word[3]);
    save(word[0], &a);
    free(a.data);
    return 0;
}

static int raw(char **word)
{
    FILE *f = begin(word[0], word[1]);
    for (long i = strtol(word[2], NULL, 10); i > 0; i--) fputc(0, f);
    return fclose(f) ? 2 : 0;
}

static int rows(char **word)
{
    array a = load(word[0]);
    long first = strtol(word[1], NULL, 10), n = strtol(word[2], NULL, 10), each = a.n / a.shape[0] * a.bytes_each;
    if (a.n_axes == 0 || first < 0 || n < 0 || first + n > a.shape[0]) die("no such rows", word[1]);
    array part = a;
    part.shape[0] = n;
    measure(&part);
    part.data = a.data + first * each;
    save(word[3], &part);
    free(a.data);
    return 0;
}

static int compare(char **word)
{
    array a = load(word[0]), b = load(word[1]);
    double tolerance = strtod(word[2], NULL), worst = 0;
    int same = a.n_axes == b.n_axes && !memcmp(a.shape, b.shape, sizeof a.shape) && !strcmp(a.dtype, b.dtype);
    if (!same) printf("%s and %s differ in shape or type\n", word[0], word[1]);
    for (long i = 0; same && i < a.n; i++) {
        double x = value(&a, i), y = value(&b, i), d = x == y ? 0 : fabs(x - y);
        if (d > worst || d != d) worst = d != d ? INFINITY : d;
    }
    int far = tolerance > 0 ? worst > tolerance : same && memcmp(a.data, b.data, (size_t)(a.n * a.bytes_each)) != 0;
    if (far) printf("%s and %s differ by %g, more than %g\n", word[0], word[1], worst, tolerance);
    free(a.data), free(b.data);
    return !same || far;
}

static int print(char **word)
{
    array a = load(word[0]);
    long columns = a.n_axes && a.shape[0] ? a.n / a.shape[0] : 1;
    printf("%s ", a.dtype);
    for (int i = 0; i < a.n_axes; i++) printf("%s%ld", i ? "," : "", a.shape[i]);
    for (long i = 0; i < a.n; i++) printf("%s%.9g", i % columns ? " " : "\n", value(&a, i));
    printf("\n");
    free(a.data);
    return 0;
}

int main(int n_words, char **word)
{
    static const struct {
        const char *name;
        int n_words, (*run)(char **word);
    } commands[] = {
        {"make", 4, make}, {"raw", 3, raw}, {"rows", 4, rows}, {"compare", 3, compare}, {"print", 1, print}};
    for (size_t i = 0; n_words > 1 && i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(word[1], commands[i].name) && n_words - 2 == commands[i].n_words) return commands[i].run(word + 2);
    die("usage", "npy make|raw|rows|compare|print ARGUMENTS; see the head of npy.c");
}
