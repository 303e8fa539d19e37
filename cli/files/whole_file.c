/* whole_file.c: a file's bytes. */
#include "whole_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

/* Reads up to the end of a file whose length is not known. */
static int read_file(FILE *file, const char *path, char **text, size_t *bytes)
{
    size_t room = 0;
    while (!feof(file)) {
        if (*bytes == room) {
            room = room ? 2 * room : 1 << 16;
            char *more = realloc(*text, room);
            if (!more) return complain(CLI_OUTSIDE, "%s: out of memory: %zu bytes", path, room);
            *text = more;
        }
        *bytes += fread(*text + *bytes, 1, room - *bytes, file);
        if (ferror(file)) return complain(CLI_DATA, "%s: cannot be read: %s", path, strerror(errno));
    }
    return CLI_GOOD;
}

/* The mark that some programs put before UTF-8 is none of the text. */
static void leave_out_mark(char *text, size_t *bytes)
{
    if (*bytes < 3 || memcmp(text, "\xef\xbb\xbf", 3) != 0) return;
    *bytes -= 3;
    memmove(text, text + 3, *bytes);
}

int whole_file_read(const char *path, char **text, size_t *bytes)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!file) return complain(CLI_DATA, "%s: cannot be read: %s", path, strerror(errno));
    int status = read_file(file, path, text, bytes);
    if (file != stdin) fclose(file);
    if (status == CLI_GOOD) leave_out_mark(*text, bytes);
    return status;
}
