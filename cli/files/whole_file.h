/* whole_file.h: a file's bytes. */
#ifndef CLI_WHOLE_FILE_H
#define CLI_WHOLE_FILE_H

#include <stddef.h>

/* Everything in a file, - is standard input; free(*text). */
int whole_file_read(const char *path, char **text, size_t *bytes);

#endif
