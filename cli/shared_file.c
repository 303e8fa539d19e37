/* shared_file.c: rank 0 makes the file under a temporary name, the others open that, and rank 0 gives it its own. */
#include "shared_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "complain.h"
#include "world.h"

typedef char file_path[HGA_PATH_BYTES];

/* To open a pipe that nobody reads would wait for ever. */
static int is_pipe(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 && S_ISFIFO(there.st_mode);
}

static int create(const char *path, outfile *out, file_path name)
{
    if (is_pipe(path)) return complain(CLI_USAGE, "%s: is written as it comes, which several ranks cannot do", path);
    int status = outfile_open(path, out);
    if (!status && out->whole.in_place)
        return complain(CLI_USAGE, "%s: is written as it comes, which several ranks cannot do", out->whole.path);
    if (!status) status = complain_of(hga_file_share(&out->whole), CLI_OUTSIDE, path);
    if (!status) memcpy(name, out->whole.temporary, sizeof(file_path));
    return status;
}

static int join(const char *path, const file_path name, outfile *out)
{
    hga_file *f = &out->whole;
    snprintf(f->path, sizeof f->path, "%s", path);
    out->file = f->stream = fopen(name, "r+b");
    if (f->stream) return CLI_GOOD;
    return complain(CLI_OUTSIDE, "%s: rank %d cannot open what rank 0 has made of it, %s: %s", path, world_rank(), name,
                    strerror(errno));
}

/* All ranks are to mean the same file. */
static int check_name(const char *path, const char *first)
{
    if (strncmp(first, path, sizeof(file_path) - 1) == 0) return CLI_GOOD;
    return complain(CLI_USAGE, "ranks write one file: rank 0 writes '%s', and rank %d '%s'", first, world_rank(), path);
}

/* Rank 0 creates the file and tells the others its temporary name. */
int shared_file_open(const char *path, outfile *out)
{
    file_path name = "", *names = NULL;
    int status = CLI_GOOD;
    *out = (outfile){0};
    TRY(world_agree(take(world_ranks(), sizeof *names, &names)));
    snprintf(name, sizeof name, "%s", path);
    TRY(world_gather(name, sizeof name, names));
    TRY(world_agree(check_name(path, names[0])));
    TRY(world_agree(world_rank() == 0 ? create(path, out, name) : CLI_GOOD));
    TRY(world_gather(name, sizeof name, names));
    TRY(world_agree(world_rank() == 0 ? CLI_GOOD : join(path, names[0], out)));
done:
    free(names);
    return status;
}

/* The others close theirs here, so that a file on another machine is whole before rank 0 names it. */
int shared_file_flush(outfile *out)
{
    int status = outfile_flush(out);
    if (world_rank() > 0) {
        if (!status && fclose(out->file))
            status = complain(CLI_OUTSIDE, "cannot write %s: %s", out->whole.path, strerror(errno));
        else if (status)
            fclose(out->file);
        *out = (outfile){0};
    }
    return world_agree(status);
}

int shared_file_keep(outfile *out) { return world_agree(world_rank() == 0 ? outfile_keep(out) : CLI_GOOD); }
