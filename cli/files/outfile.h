/* outfile.h: files that appear whole or not at all (hga_file.h), with complaints. */
#ifndef CLI_OUTFILE_H
#define CLI_OUTFILE_H

#include "hga_file.h"

typedef struct outfile {
    FILE *file; /* to write to */
    hga_file whole;
} outfile;

/* INT, TERM and HUP end the process without leaving temporary names; a file that may not grow is an error and no
   signal. */
void outfile_watch_signals(void);

int outfile_open(const char *path, outfile *out);
/* Can it be opened? Nobody should wait for a minute to hear that what is written last has no place. */
int outfile_check(const char *path);
/* Everything to the disk, still without its name, which outfile_keep gives. Two steps, so that several files appear
   together. */
int outfile_flush(outfile *out);
int outfile_keep(outfile *out);
/* Close and remove what was not kept; harmless on a zeroed or kept output. */
void outfile_drop(outfile *out);

/* Would the two paths be one file? Names of files that do not exist yet are one when their folders are; devices may be
   given twice. */
int outfile_same(const char *a, const char *b);

#endif
