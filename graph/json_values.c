/* json_values.c: values of a JSON text with their location, so that an error says where; parses files and texts (of
   graph/ this and the two readers include jansson). */
#include "json_values.h"
#include "load.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const json_shapes[HGA_BAND + 1] = {"all",          "lower",        "strict_lower", "upper",
                                               "strict_upper", "off_diagonal", "band"};
const char *const json_sides[HGA_SIDE_KEY + 1] = {"both", "query", "key"};
const char *const json_claims[3] = {"causal", "single", "complete"};
const char *const json_free_members[] = {"program", "words", "comment", NULL};

const json_field json_block_fields[] = {
    {"dst", JSON_NEEDED, offsetof(hga_block, dst)},
    {"n_dst", JSON_NEEDED, offsetof(hga_block, n_dst)},
    {"src", JSON_NEEDED, offsetof(hga_block, src)},
    {"n_src", JSON_NEEDED, offsetof(hga_block, n_src)},
    {"count", JSON_OPTIONAL, offsetof(hga_block, count)},
    {"dst_step", JSON_OPTIONAL, offsetof(hga_block, dst_step)},
    {"src_step", JSON_OPTIONAL, offsetof(hga_block, src_step)},
    {"type", JSON_OPTIONAL, offsetof(hga_block, type)},
    {"type_dst", JSON_OPTIONAL, offsetof(hga_block, type_dst)},
    {"type_src", JSON_OPTIONAL, offsetof(hga_block, type_src)},
    {"pos_of", JSON_NODE, offsetof(hga_block, pos_of)},
    {"pos_step", JSON_OPTIONAL, offsetof(hga_block, pos_step)},
    {"src_pos_of", JSON_NODE, offsetof(hga_block, src_pos_of)},
    {"src_pos_step", JSON_OPTIONAL, offsetof(hga_block, src_pos_step)},
    {"weight", JSON_WEIGHT, offsetof(hga_block, weight)},
    {"shape", JSON_SHAPE, offsetof(hga_block, shape)},
    {"band", JSON_SPECIAL, 0},
    {"comment", JSON_SPECIAL, 0},
    {NULL, JSON_SPECIAL, 0},
};

const json_field json_choice_fields[] = {
    {"dst", JSON_NEEDED, offsetof(hga_choice, dst)},
    {"n_dst", JSON_NEEDED, offsetof(hga_choice, n_dst)},
    {"src", JSON_NEEDED, offsetof(hga_choice, src)},
    {"n_src", JSON_NEEDED, offsetof(hga_choice, n_src)},
    {"row_block", JSON_NEEDED, offsetof(hga_choice, row_block)},
    {"block", JSON_NEEDED, offsetof(hga_choice, block)},
    {"causal", JSON_FLAG, offsetof(hga_choice, causal)},
    {"lists", JSON_SPECIAL, 0},
    {"comment", JSON_SPECIAL, 0},
    {NULL, JSON_SPECIAL, 0},
};

/* ---- where in the file ---- */

json_location json_member_of(const json_location *up, const char *name) { return (json_location){up, name, 0}; }

json_location json_item_of(const json_location *up, size_t index) { return (json_location){up, NULL, index}; }

/* "graph.json: relations[2].blocks[17].n_dst" */
static size_t put_location(const json_location *p, char *text, size_t capacity)
{
    size_t used = p->up ? put_location(p->up, text, capacity) : 0;
    if (used >= capacity) return used;
    const char *before = !p->up ? "" : p->up->up ? "." : ": ";
    int n = p->name ? snprintf(text + used, capacity - used, "%s%s", before, p->name)
                    : snprintf(text + used, capacity - used, "[%zu]", p->index);
    return used + (n > 0 ? (size_t)n : 0);
}

hga_status json_wrong(const json_location *p, const char *format, ...)
{
    char where[400], what[200];
    put_location(p, where, sizeof where);
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return hga_fail(HGA_EFORMAT, "%s: %s", where, what);
}

/* Adds the location to the builder's error; an argument it calls invalid is a fault of the file. */
hga_status json_refused(const json_location *p, hga_status st)
{
    if (st == HGA_OK || st == HGA_ENOMEM) return st;
    char where[256], what[320];
    put_location(p, where, sizeof where);
    snprintf(what, sizeof what, "%s", hga_error_detail());
    return hga_fail(st == HGA_EINVAL ? HGA_EGRAPH : st, "%s: %s", where, what);
}

/* ---- values ---- */

const char *json_type_name(const json_t *value)
{
    static const char *const names[] = {"an object",     "an array", "a string", "an integer",
                                        "a real number", "true",     "false",    "null"};
    size_t type = (size_t)json_typeof(value);
    return type < sizeof names / sizeof *names ? names[type] : "something else";
}

hga_status json_read_integer(const json_location *p, const json_t *value, int32_t *out)
{
    if (!json_is_integer(value)) return json_wrong(p, "an integer is expected, not %s", json_type_name(value));
    json_int_t i = json_integer_value(value);
    if (i < INT32_MIN || i > INT32_MAX) return json_wrong(p, "%lld does not fit 32 bits", (long long)i);
    *out = (int32_t)i;
    return HGA_OK;
}

hga_status json_read_real(const json_location *p, const json_t *value, float *out)
{
    if (!json_is_number(value)) return json_wrong(p, "a number is expected, not %s", json_type_name(value));
    double x = json_number_value(value);
    if (!(x >= -(double)FLT_MAX && x <= (double)FLT_MAX) || (x != 0 && (float)x == 0))
        return json_wrong(p, "%g does not fit a 32-bit real number", x);
    *out = (float)x;
    return HGA_OK;
}

hga_status json_expect_array(const json_location *p, const json_t *value)
{
    return json_is_array(value) ? HGA_OK : json_wrong(p, "an array is expected, not %s", json_type_name(value));
}

/* An array of `least` to `most` integers; *n gets how many. */
hga_status json_read_integers(const json_location *p, const json_t *value, size_t least, size_t most, int32_t *out,
                              size_t *n)
{
    hga_status st = json_expect_array(p, value);
    if (st) return st;
    *n = json_array_size(value);
    if (*n < least || *n > most)
        return json_wrong(p, "%zu numbers, where %zu are expected", *n, *n < least ? least : most);
    for (size_t i = 0; !st && i < *n; i++) {
        json_location item = json_item_of(p, i);
        st = json_read_integer(&item, json_array_get(value, i), &out[i]);
    }
    return st;
}

/* Reads one of n words; *out is its index. */
hga_status json_read_word(const json_location *p, const json_t *value, const char *const *words, int n, int *out)
{
    if (!json_is_string(value)) return json_wrong(p, "a string is expected, not %s", json_type_name(value));
    for (*out = 0; *out < n; ++*out)
        if (strcmp(json_string_value(value), words[*out]) == 0) return HGA_OK;
    return json_wrong(p, "\"%.40s\" is unknown", json_string_value(value));
}

static int is_listed(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0) names++;
    return *names != NULL;
}

/* Requires an object whose members are all in `names` or `more`. */
hga_status json_expect_object(const json_location *p, json_t *value, const char *const *names, const char *const *more)
{
    if (!json_is_object(value)) return json_wrong(p, "an object is expected, not %s", json_type_name(value));
    const char *name;
    json_t *ignored;
    json_object_foreach(value, name, ignored)
    {
        if (!is_listed(name, names) && !(more && is_listed(name, more)))
            return json_wrong(p, "unknown member \"%.60s\"", name);
    }
    return HGA_OK;
}

hga_status json_expect_member(const json_location *p, const json_t *object, const char *name, json_t **out)
{
    *out = json_object_get(object, name);
    return *out ? HGA_OK : json_wrong(p, "member \"%s\" is missing", name);
}

/* ---- members ---- */

/* Calls `read` for each item of an array, until one fails. */
static hga_status read_items(json_reader *r, const json_location *at, json_t *list, item_reader read)
{
    hga_status st = json_expect_array(at, list);
    for (size_t i = 0, n = json_array_size(list); !st && i < n; i++) {
        json_location item = json_item_of(at, i);
        st = read(r, &item, json_array_get(list, i));
    }
    return st;
}

hga_status json_read_members(json_reader *r, const json_member *members, int object, const char *const *more)
{
    const char *names[JSON_MOST_MEMBERS + 1] = {NULL};
    hga_status st = HGA_OK;
    size_t n = 0;
    for (const json_member *m = members; m->name; m++)
        if (m->is & object) names[n++] = m->name;
    HGA_TRY(json_expect_object(&r->root, r->object, names, more));
    for (const json_member *m = members; m->name; m++) {
        json_t *value = json_object_get(r->object, m->name);
        json_location at = json_member_of(&r->root, m->name);
        if (!(m->is & object)) continue;
        if (!value && m->is & IS_NEEDED) HGA_TRY(json_expect_member(&r->root, r->object, m->name, &value));
        r->n_named = 0;
        if (value && m->read) HGA_TRY(m->is & BY_ITEM ? read_items(r, &at, value, m->read) : m->read(r, &at, value));
    }
done:
    return st;
}

/* ---- text ---- */

void hga_text_free(char *text)
{
    if (text) hga_delete(NULL, text, (int64_t)strlen(text) + 1, 1);
}

/* A file as JSON, with or without a byte order mark. */
hga_status json_load(const hga_allocator *a, const char *path, const char *name, json_t **out)
{
    hga_status st = HGA_OK;
    char *text = NULL;
    int64_t n, capacity;
    HGA_TRY(bytes_load(a, path, name, &text, &n, &capacity));
    int64_t mark = mark_bytes(text, n);
    HGA_TRY(json_parse(name, text + mark, (size_t)(n - mark), out));
done:
    hga_delete(a, text, capacity, 1);
    return st;
}

/* ---- for the writer ---- */

/* jansson does not say why it refuses a text. One that it accepts at a second try, or refuses even unchecked, was
   refused for lack of memory. */
hga_status json_check_text(const char *what, const char *text)
{
    json_t *first = json_string(text), *again = first ? NULL : json_string(text),
           *unchecked = first || again ? NULL : json_string_nocheck(text);
    int good = first != NULL, invalid = unchecked != NULL;
    json_decref(first);
    json_decref(again);
    json_decref(unchecked);
    if (good) return HGA_OK;
    return invalid ? hga_fail(HGA_EINVAL, "%s, %s, is not UTF-8", what, text)
                   : hga_fail(HGA_ENOMEM, "no memory for %s", what);
}

/* The members between braces, parsed. */
static hga_status load_members(const char *members, json_t **out)
{
    char *text = NULL;
    int64_t length = (int64_t)strlen(members);
    hga_status st = hga_new(NULL, length + 2, 1, &text);
    if (st) return st;
    text[0] = '{';
    memcpy(text + 1, members, (size_t)length);
    text[length + 1] = '}';
    st = json_parse("the further members", text, (size_t)length + 2, out);
    hga_delete(NULL, text, length + 2, 1);
    return st == HGA_EFORMAT ? HGA_EINVAL : st;
}

/* Whether the object has a member that the first schema lacks. */
static int has_others(const json_t *object, const char *const *first)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) if (!is_listed(name, first)) return 1;
    return 0;
}

static int program_is_newer(const json_t *program)
{
    static const char *const first[] = {"fields", "stages", "default_scale", "lse", NULL};
    size_t i;
    const json_t *stage;
    if (has_others(program, first)) return 1;
    json_array_foreach(json_object_get(program, "stages"), i, stage) if (json_object_get(stage, "normaliser")) return 1;
    return 0;
}

/* Checks the members that a writer adds to a graph; *out is what the schema's version depends on. */
hga_status json_check_members(const char *members, json_carried *out)
{
    json_t *object = NULL;
    const char *name;
    json_t *value;
    *out = (json_carried){0};
    if (!members) return HGA_OK;
    hga_status st = load_members(members, &object);
    if (st) return st;
    *out = (json_carried){(hga_pos)json_object_size(object), json_object_get(object, "words") != NULL,
                          program_is_newer(json_object_get(object, "program"))};
    json_object_foreach(object, name, value)
    {
        if (!is_listed(name, json_free_members))
            st = hga_fail(HGA_EINVAL, "\"%.60s\" is not a member that a graph may carry along", name);
        if (!st && strcmp(name, "program") == 0 && !json_is_object(value) && !json_is_string(value))
            st = hga_fail(HGA_EINVAL, "the program is not an object or a name");
        if (st) break;
    }
    json_decref(object);
    return st;
}
