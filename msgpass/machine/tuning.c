/* tuning.c: the table of processors, and overrides by HGA_TUNING. */
#include "tuning.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the numbers ---- */

static const struct {
    const char *name;
    size_t at;
    int64_t least, most;
} numbers[] = {
    {"pack_readers", offsetof(tuning, pack_readers), 1, INT32_MAX},
    {"stream_output", offsetof(tuning, stream_output), 0, INT64_C(1) << 60},
    {"stream_gradients", offsetof(tuning, stream_gradients), 0, INT64_C(1) << 60},
    {"far_sources", offsetof(tuning, far_sources), 0, INT64_C(1) << 60},
    {"near_sources", offsetof(tuning, near_sources), 0, INT64_C(1) << 60},
    {"tree_bytes", offsetof(tuning, tree_bytes), 1 << 10, 1 << 30},
    {"attend_bytes", offsetof(tuning, attend_bytes), 1 << 10, 1 << 30},
    {"cyclic_bytes", offsetof(tuning, cyclic_bytes), 1 << 10, INT64_C(1) << 60},
};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

static int64_t *number_of(tuning *t, int i) { return (int64_t *)(void *)((char *)t + numbers[i].at); }

static int64_t number_at(const tuning *t, int i) { return *number_of((tuning *)(uintptr_t)t, i); }

/* ---- the table ---- */

/* A processor uses the first row that matches: the maker's name ("": any), its family (0: any), and at least so large a
   second-level cache. `measured` says on which processors it was, NULL: on none. bench/studies/tuning.py measures one.
   - AMD, 2026-11: Zen 4 and 5, families 25 and 26, 1 MB.
   - Intel, 2026-11: Emerald Rapids, 2 MB. Copying for three readers takes 7.5 % longer on routed trees; panels of half
     the bytes are 6 % faster on trees of sixteen, and alike elsewhere. Random edges among 8 to 16 MB run backward in
     0.89 to 0.92 of the time when treated as in memory, and forward in 0.98. Outputs of 16 MB take 0.90 to 0.97 when
     they bypass the caches; those of 8 MB, of deep trees, 1.02 to 1.07. One row of 4 to 17 MB takes 0.95 of its time
     without prefetching; on Zen 4 1.1, and thrice its time from memory.
   - 64-bit ARM, whatever its caches: that of others, but that no store there bypasses the caches. */
#define NEVER (INT64_C(1) << 60)
static const struct {
    const char *maker;
    hga_id family;
    int64_t second_cache;
    const char *measured;
    tuning t;
} table[] = {
    {"GenuineIntel",
     6,
     2 << 20,
     "Emerald Rapids",
     {6, 16 << 20, 8 << 20, 8 << 20, 32 << 20, 64 << 10, 256 << 10, 1 << 20}},
    {"aarch64", 0, 0, NULL, {3, NEVER, NEVER, 32 << 20, 2 << 20, 128 << 10, 512 << 10, 1 << 20}},
    {"", 0, 0, "Zen 4 and 5", {3, 32 << 20, 8 << 20, 32 << 20, 2 << 20, 128 << 10, 512 << 10, 1 << 20}},
};

static size_t row_of(const processor *p)
{
    for (size_t i = 0;; i++) {
        int maker = !*table[i].maker || strcmp(table[i].maker, p->maker) == 0;
        int family = !table[i].family || table[i].family == p->family;
        if (maker && family && p->second_cache >= table[i].second_cache) return i;
    }
}

tuning tuning_of(const processor *p) { return table[row_of(p)].t; }

const char *tuning_measured(const processor *p) { return table[row_of(p)].measured; }

/* ---- overrides ---- */

static int number_named(const char *name, size_t n)
{
    for (int i = 0; i < N_NUMBERS; i++)
        if (strlen(numbers[i].name) == n && memcmp(numbers[i].name, name, n) == 0) return i;
    return -1;
}

static hga_status say_names(const char *word, int n)
{
    char names[200] = "";
    for (int i = 0, at = 0; i < N_NUMBERS; i++)
        at += snprintf(names + at, sizeof names - (size_t)at, "%s%s", i ? ", " : "", numbers[i].name);
    return hga_fail(HGA_EINVAL, "HGA_TUNING: '%.*s' is not NUMBER=VALUE, where the numbers are %s", n, word, names);
}

/* One NAME=VALUE of n characters. */
static hga_status override_one(const char *word, size_t n, tuning *t)
{
    const char *equals = memchr(word, '=', n);
    int i = equals ? number_named(word, (size_t)(equals - word)) : -1, shown = n < 60 ? (int)n : 60;
    if (i < 0) return say_names(word, shown);
    char *end;
    errno = 0;
    long long value = strtoll(equals + 1, &end, 10);
    int whole = equals[1] >= '0' && equals[1] <= '9' && end == word + n && !errno;
    if (!whole || value < numbers[i].least || value > numbers[i].most)
        return hga_fail(HGA_EINVAL, "HGA_TUNING: '%.*s' is not a whole number from %lld to %lld", shown, word,
                        (long long)numbers[i].least, (long long)numbers[i].most);
    *number_of(t, i) = value;
    return HGA_OK;
}

/* Applies all overrides, or none where one is wrong. */
hga_status tuning_override(const char *text, tuning *t)
{
    tuning changed = *t;
    if (!text || !*text) return HGA_OK;
    for (const char *word = text;; word++) {
        size_t n = strcspn(word, ",");
        hga_status st = override_one(word, n, &changed);
        if (st) return st;
        word += n;
        if (!*word) break;
    }
    *t = changed;
    return HGA_OK;
}

/* ---- description ---- */

/* The processor and its numbers, in a line. */
tuning_words tuned_say(const tuned *t)
{
    tuning_words x = {""};
    size_t capacity = sizeof x.text,
           at = (size_t)snprintf(x.text, capacity,
                                 "%s family %d, second cache %lld kB:", *t->here.maker ? t->here.maker : "a processor",
                                 t->here.family, (long long)t->here.second_cache / 1024);
    for (int i = 0; i < N_NUMBERS; i++)
        at += (size_t)snprintf(x.text + at, capacity - at, "%s %s %lld", i ? "," : "", numbers[i].name,
                               (long long)number_at(&t->is, i));
    const char *measured = tuning_measured(&t->here);
    snprintf(x.text + at, capacity - at, "%s%s%s",
             measured ? "; these numbers were measured on " : "; these numbers were not measured",
             measured ? measured : "", t->declared ? " (HGA_TUNING)" : "");
    return x;
}

json_t *tuned_json(const tuned *t)
{
    json_t *all =
        json_pack("{s:s, s:i, s:i, s:I, s:I, s:b, s:s?}", "maker", t->here.maker, "family", (int)t->here.family,
                  "model", (int)t->here.model, "second_cache", (json_int_t)t->here.second_cache, "third_cache",
                  (json_int_t)t->here.third_cache, "overridden", t->declared, "measured_on", tuning_measured(&t->here));
    for (int i = 0; all && i < N_NUMBERS; i++)
        json_object_set_new(all, numbers[i].name, json_integer(number_at(&t->is, i)));
    return all;
}
