/* json_values.h: values of a JSON text with their location, for the files that read graphs. Only they include this. */
#ifndef JSON_VALUES_H
#define JSON_VALUES_H

#include "json.h"
#include "json_text.h"

/* ---- where in the file ---- */

/* A value's location: a member of `up`, or its item `index`; the root's name is the file's. Lives on the stack of the
   function that reads it. */
typedef struct json_location {
    const struct json_location *up;
    const char *name; /* NULL: an item */
    size_t index;
} json_location;
/* The location of up's member `name`, which is borrowed. */
json_location json_member_of(const json_location *up, const char *name);
/* The location of up's item `index`. */
json_location json_item_of(const json_location *up, size_t index);

/* HGA_EFORMAT with the location: "graph.json: relations[2].blocks[17].n_dst: .." */
hga_status json_wrong(const json_location *p, const char *format, ...) HGA_PRINTF(2, 3);
/* Adds the location to the builder's error; an argument it calls invalid is a fault of the file. */
hga_status json_refused(const json_location *p, hga_status st);

/* ---- values ---- */

/* The value's type as errors name it: "an object". */
const char *json_type_name(const json_t *value);
/* An integer of 32 bits; else HGA_EFORMAT. */
hga_status json_read_integer(const json_location *p, const json_t *value, int32_t *out);
/* A number that a float can hold, not rounded to 0; else HGA_EFORMAT. */
hga_status json_read_real(const json_location *p, const json_t *value, float *out);
/* An array of `least` to `most` integers; *n gets how many. */
hga_status json_read_integers(const json_location *p, const json_t *value, size_t least, size_t most, int32_t *out,
                              size_t *n);
/* One of n words; *out is its index. */
hga_status json_read_word(const json_location *p, const json_t *value, const char *const *words, int n, int *out);
/* HGA_EFORMAT unless it is an array. */
hga_status json_expect_array(const json_location *p, const json_t *value);
/* An object whose members are all in one of two lists ended by NULL; `more` may be NULL. */
hga_status json_expect_object(const json_location *p, json_t *value, const char *const *names, const char *const *more);
/* The member of that name, borrowed; HGA_EFORMAT if it is missing. */
hga_status json_expect_member(const json_location *p, const json_t *object, const char *name, json_t **out);

/* Members that a graph carries along for others; ended by NULL. */
extern const char *const json_free_members[];

/* ---- text ---- */

/* The file, "-" for stdin, parsed; `name` is what errors call it. */
hga_status json_load(const hga_allocator *a, const char *path, const char *name, json_t **out);

/* ---- a graph being read ---- */

typedef struct json_reader {
    const hga_allocator *allocator;
    json_location root;
    json_t *object;
    hga_builder *b;
    hga_id n_nodes, relation; /* nodes of the levels; the relation being read */
    int64_t n_named;          /* nodes of the runs of sides, or of masses, so far */
} json_reader;

/* Reads a member, or one item of it, at its location. */
typedef hga_status (*item_reader)(json_reader *r, const json_location *p, json_t *value);
/* Which objects have a member, and how it is read. */
enum { OF_GRAPH = 1, OF_LONGER = 2, OF_RELATION = 4, IS_NEEDED = 8, BY_ITEM = 16, JSON_MOST_MEMBERS = 20 };
typedef struct json_member {
    const char *name; /* NULL: the end of a table */
    int is;
    item_reader read; /* NULL: carried along */
} json_member;
/* Reads r->object, an object of that kind, in the order of the table. It may have no other members than the table's,
   but perhaps some of `more`. */
hga_status json_read_members(json_reader *r, const json_member *members, int object, const char *const *more);

/* read_json_relations.c: one relation, an item of `relations`. */
hga_status json_read_relation(json_reader *r, const json_location *p, json_t *object);

#endif
