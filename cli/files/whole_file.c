/* whole_file.c: a file's bytes, and the JSON in them. */
#include "whole_file.h"

#include <errno.h>
#include <stdlib.h>

#include "complain.h"
#include "hga_documents.h"

int whole_file_read(const char *path, char **text, size_t *bytes)
{
    return complain_of(hga_document_load(path, text, bytes), CLI_DATA, file_name(path));
}

/* ---- JSON ---- */

/* jansson does not always report that it lacked memory, but malloc sets errno. */
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
