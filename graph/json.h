/* json.h: what the JSON writer needs from the file that includes jansson. Only graph/ includes this. */
#ifndef JSON_H
#define JSON_H

#include "hga_graph.h"

/* The writer chooses the oldest schema that fits: the second where a program has members that the first lacks; the
   third where there is a longer graph; the fourth where nodes have kinds; the fifth where rows choose blocks or there
   are parts. */
enum {
    JSON_SCHEMA = 1,
    JSON_PROGRAM_SCHEMA = 2,
    JSON_LONGER_SCHEMA = 3,
    JSON_KINDS_SCHEMA = 4,
    JSON_CHOICES_SCHEMA = 5,
    JSON_NEWEST_SCHEMA = JSON_CHOICES_SCHEMA
};

/* Shape i is written as json_shapes[i]; json_sides and json_claims likewise (claim i is bit i). */
extern const char *const json_shapes[HGA_BAND + 1], *const json_sides[HGA_SIDE_KEY + 1], *const json_claims[3];

/* How a member of a block or a choice stands in a file. What a file leaves out is 0 in the struct. */
typedef enum json_form {
    JSON_NEEDED,   /* an integer that no file leaves out */
    JSON_OPTIONAL, /* an integer that may be left out */
    JSON_FLAG,     /* 0 or 1 */
    JSON_NODE,     /* a node's number; one more in the struct */
    JSON_WEIGHT,   /* a positive real number */
    JSON_SHAPE,    /* a word of json_shapes */
    JSON_SPECIAL   /* none of these: reader and writer have a function for it */
} json_form;
typedef struct json_field {
    const char *name; /* NULL: the end of a table */
    json_form form;
    size_t offset; /* in the struct */
} json_field;
/* The members of a hga_block and of a hga_choice, in the order in which they are written. */
extern const json_field json_block_fields[], json_choice_fields[];

/* HGA_EINVAL unless the text is UTF-8, as a JSON string must be. */
hga_status json_check_text(const char *what, const char *text);
/* Members that a graph carries along: how many, whether `words` is one of them, and whether a program among them has
   members that the first schema lacks. */
typedef struct json_carried {
    hga_pos n;
    int has_words, is_newer;
} json_carried;
/* HGA_EINVAL unless the text is a list of members that hga_graph_read_json accepts besides the graph's own. */
hga_status json_check_members(const char *members, json_carried *out);

#endif
