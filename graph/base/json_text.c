/* json_text.c: parses JSON, and distinguishes bad text from lack of memory. */
#include "json_text.h"
#include "written.h"

#include <errno.h>
#include <string.h>

static int starts_with(const char *text, const char *words) { return strncmp(text, words, strlen(words)) == 0; }

/* jansson reports a failed allocation by its code, by no text at all, by refusing a complete string as a token, or by
   what it understands without the letters that it could not store; malloc reports it by errno, unless a number was read
   since. */
static int is_out_of_memory(const json_error_t *error, const char *text, size_t n)
{
    if (errno == ENOMEM || json_error_code(error) == json_error_out_of_memory || !error->text[0]) return 1;
    if (!starts_with(error->text, "string or '}' expected") && !starts_with(error->text, "invalid token")) return 0;
    return error->position > 0 && (size_t)error->position <= n && text[error->position - 1] == '"';
}

/* Text that is good at a second try was never bad. */
static int is_good_again(const char *text, size_t n)
{
    json_t *again = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    json_decref(again);
    return again != NULL;
}

/* Distinguishes bad text from lack of memory, which jansson may report as bad text. */
hga_status json_parse(const char *name, const char *text, size_t n, json_t **out)
{
    json_error_t error;
    if (!text) text = "";
    errno = 0;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (*out && errno != ENOMEM) return HGA_OK;
    memory_is_written(&error, sizeof error);
    int starved = *out || is_out_of_memory(&error, text, n) || is_good_again(text, n);
    json_decref(*out), *out = NULL;
    if (starved) return hga_fail(HGA_ENOMEM, "%s: no memory for its values", name);
    return hga_fail(HGA_EFORMAT, "%s: line %d, column %d: %s", name, error.line, error.column, error.text);
}
