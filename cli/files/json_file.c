/* json_file.c: JSON documents. jansson does not always say that memory was what it lacked, but malloc tells by errno.
 */
#include "json_file.h"

#include <errno.h>
#include <stdlib.h>

#include "complain.h"
#include "whole_file.h"

int json_file_parse(const char *path, const char *text, size_t n, size_t flags, json_t **out)
{
    json_error_t error;
    errno = 0;
    *out = json_loadb(text, n, flags, &error);
    if (*out && errno != ENOMEM) return CLI_GOOD;
    /* text that is good at a second try was never bad */
    json_t *again = *out || errno == ENOMEM ? NULL : json_loadb(text, n, flags, NULL);
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
    if (status == CLI_GOOD) status = json_file_parse(path, text ? text : "", bytes, 0, out);
    free(text);
    return status;
}
