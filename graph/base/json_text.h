/* json_text.h: a text parsed as JSON. For the sources of this project; not installed. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include "hga_base.h"

#include <jansson.h>

/* n bytes of JSON without repeated members; `name` is what errors call them. HGA_EFORMAT tells line and column. */
hga_status json_parse(const char *name, const char *text, size_t n, json_t **out);

#endif
