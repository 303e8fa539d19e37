/* whole_file.h: files that are read whole: bytes, and JSON documents, with whose fault it is where there is none. */
#ifndef CLI_WHOLE_FILE_H
#define CLI_WHOLE_FILE_H

#include <jansson.h>
#include <stddef.h>

/* Everything in a file, - is standard input; free(*text). */
int whole_file_read(const char *path, char **text, size_t *bytes);
/* A document for json_decref; "-" is standard input. */
int json_file_read(const char *path, json_t **out);

#endif
