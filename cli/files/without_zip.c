/* without_zip.c: in place of npz.c where libzip is left out. */
#include "archive.h"

#include "complain.h"

static int refuse(const char *path)
{
    return complain(CLI_OUTSIDE, "%s: .npz files need libzip, which this tool was built without (HGA_WITH_ZIP=OFF)",
                    path);
}

int npz_open(const char *path, const char *name, FILE **stream, char **memory)
{
    (void)name, (void)stream, (void)memory;
    return refuse(path);
}

int npz_each(const char *path, int64_t most, int (*visit)(const char *name, FILE *stream, void *context), void *context)
{
    (void)most, (void)visit, (void)context;
    return refuse(path);
}
