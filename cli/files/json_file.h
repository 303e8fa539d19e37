/* json_file.h: JSON documents, with whose fault it is where there is none. */
#ifndef CLI_JSON_FILE_H
#define CLI_JSON_FILE_H

#include <jansson.h>
#include <stdio.h>

/* A document for json_decref; "-" is standard input. Of a text, `path` is what messages call it. */
int json_file_read(const char *path, json_t **out);
int json_file_parse(const char *path, const char *text, size_t n, size_t flags, json_t **out);

#endif
