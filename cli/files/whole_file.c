/* whole_file.c: a file's bytes, and the JSON in them. */
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

/* ---- JSON ---- */

/* jansson does not always say that memory was what it lacked, but malloc tells by errno. */
static int json_parse(const char *path, const char *text, size_t n, json_t **out)
{
    json_error_t error;
    errno = 0;
    *out = json_loadb(text, n, 0, &error);
    if (*out && errno != ENOMEM) return CLI_GOOD;
    /* text that is good at a second try was never bad */
    json_t *again = *out || errno == ENOMEM ? NULL : json_loadb(text, n, 0, NULL);
    int starved = *out || again || errno == ENOMEM || json_error_code(&error) == json_error_out_of_memory;
    json_decref(*out), json_decref(again);
    *out = NULL;
    if (starved) return complain(CLI_OUTSIDE, "%s: out of memory: its values", path);
    return complain(CLI_DATA, "%s: line %d: %s", path, error.line, error.text);
}

int json_file_read(const char *path, json_t **out)
{
    char *text = NULL;
    size_t bytes = 0;
    *out = NULL;
    int status = whole_file_read(path, &text, &bytes);
    if (status == CLI_GOOD) status = json_parse(path, text ? text : "", bytes, out);
    free(text);
    return status;
}
