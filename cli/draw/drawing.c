/* drawing.c: the format of a file, by its suffix. */
#include <string.h>

#include "complain.h"
#include "drawing.h"

static int ends_in(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && strcmp(path + n - m, suffix) == 0;
}

int drawing_check_path(const char *option, const char *path)
{
    if (!path || ends_in(path, ".svg") || ends_in(path, ".png")) return CLI_GOOD;
    return complain(CLI_USAGE, "%s: '%s' does not end in .svg or .png", option, path);
}

int drawing_write(const drawing *d, const char *path)
{
    return (ends_in(path, ".png") ? png_write : svg_write)(d, path);
}
