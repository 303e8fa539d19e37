/* outfile.c: write to a temporary name, rename at the end. */
#include "outfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "complain.h"

/* devices and pipes are written in place: renaming a file over /dev/null would replace it */
static int in_place(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && !S_ISREG(s.st_mode);
}

/* mkstemp makes files private; give them what the user's umask allows */
static void open_mode(int descriptor)
{
    mode_t mask = umask(0);
    umask(mask);
    (void)!fchmod(descriptor, 0666 & ~mask);
}

static int open_temporary(outfile *out)
{
    size_t length = strlen(out->path) + sizeof ".XXXXXX";
    int status = take((int64_t)length, 1, &out->temporary);
    if (status) return status;
    snprintf(out->temporary, length, "%s.XXXXXX", out->path);
    int descriptor = mkstemp(out->temporary);
    if (descriptor >= 0) {
        open_mode(descriptor);
        out->file = fdopen(descriptor, "wb");
        if (out->file) return CLI_GOOD;
        close(descriptor);
        unlink(out->temporary);
    }
    free(out->temporary);
    out->temporary = NULL;
    return complain(CLI_OUTSIDE, "%s: cannot be written: %s", out->path, strerror(errno));
}

int outfile_open(const char *path, outfile *out)
{
    *out = (outfile){.path = path};
    if (strcmp(path, "-") == 0) {
        out->file = stdout;
        return CLI_GOOD;
    }
    if (!in_place(path)) return open_temporary(out);
    out->file = fopen(path, "wb");
    return out->file ? CLI_GOOD : complain(CLI_OUTSIDE, "%s: cannot be written: %s", path, strerror(errno));
}

int outfile_flush(outfile *out)
{
    errno = 0;
    if (fflush(out->file) == 0 && !ferror(out->file)) return CLI_GOOD;
    return complain(CLI_OUTSIDE, "%s: cannot be written: %s", out->path, strerror(errno ? errno : EIO));
}

int outfile_keep(outfile *out)
{
    int status = outfile_flush(out);
    if (status == CLI_GOOD && out->file != stdout && fclose(out->file) != 0)
        status = complain(CLI_OUTSIDE, "%s: cannot be written: %s", out->path, strerror(errno));
    else if (status)
        return status; /* outfile_drop closes and removes */
    out->file = NULL;
    if (status == CLI_GOOD && out->temporary && rename(out->temporary, out->path) != 0)
        status = complain(CLI_OUTSIDE, "%s: cannot be written: %s", out->path, strerror(errno));
    if (status && out->temporary) unlink(out->temporary);
    free(out->temporary);
    out->temporary = NULL;
    return status;
}

void outfile_drop(outfile *out)
{
    if (out->file && out->file != stdout) fclose(out->file);
    out->file = NULL;
    if (out->temporary) unlink(out->temporary);
    free(out->temporary);
    out->temporary = NULL;
}

/* The folder of a path as the system knows it, and the name within it. */
static const char *split(const char *path, struct stat *folder, int *found)
{
    const char *slash = strrchr(path, '/');
    char *name = slash ? strndup(path, (size_t)(slash - path) + 1) : NULL;
    *found = slash && !name ? 0 : stat(name ? name : ".", folder) == 0;
    free(name);
    return slash ? slash + 1 : path;
}

int outfile_same(const char *a, const char *b)
{
    struct stat x, y;
    int found_x, found_y;
    if (strcmp(a, b) == 0) return 1;
    if (stat(a, &x) == 0 && stat(b, &y) == 0) return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    const char *name_a = split(a, &x, &found_x), *name_b = split(b, &y, &found_y);
    return found_x && found_y && strcmp(name_a, name_b) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
