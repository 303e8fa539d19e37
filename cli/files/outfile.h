/* outfile.h: files that appear whole or not at all. */
#ifndef CLI_OUTFILE_H
#define CLI_OUTFILE_H

#include <stdio.h>

typedef struct outfile {
    FILE *file;
    const char *path; /* borrowed; "-" is stdout */
    char *temporary;  /* NULL: written in place (stdout, a device, a pipe) */
} outfile;

/* Open a temporary name beside `path`. */
int outfile_open(const char *path, outfile *out);
/* Everything to the disk, still under the temporary name; then outfile_keep renames. Two steps, so that several files
   appear together. */
int outfile_flush(outfile *out);
int outfile_keep(outfile *out);
/* Close and remove what was not kept; harmless on a zeroed or kept output. */
void outfile_drop(outfile *out);

/* Would the two paths be one file? Names of files that do not exist yet are one when their folders are; devices may be
   given twice. */
int outfile_same(const char *a, const char *b);

#endif
