/* outfile.h: files that appear whole or not at all (file.h of graph/base), with complaints. */
#ifndef CLI_OUTFILE_H
#define CLI_OUTFILE_H

#include "file.h"

typedef struct outfile {
    FILE *file; /* to write to */
    hga_file whole;
} outfile;

/* INT, TERM, HUP and PIPE leave no temporary names; a file that may not grow is an error and no signal. */
void outfile_watch_signals(void);

/* A standard stream that is closed stays unusable, and no other file gets its number and what is printed. */
void outfile_reserve_standard_streams(void);

int outfile_open(const char *path, outfile *out);
/* Can it be opened? Found out before a long run, not when the output is written at its end. */
int outfile_check(const char *path);
/* Flushes everything to the disk; outfile_keep then gives the name. Two steps, so that several files appear
   together. */
int outfile_flush(outfile *out);
int outfile_keep(outfile *out);
/* Writes all of it: what `put` writes of the context, with its own complaint where that fails. */
int outfile_write(const char *path, int (*put)(FILE *file, const void *context), const void *context);
/* Closes and removes an output that was not kept; harmless on a zeroed or kept output. */
void outfile_drop(outfile *out);

/* Would the two paths be one file, pipe or standard stream? Names of files that do not exist yet are one when they lead
   to one name in one folder; devices may be given twice. */
int outfile_same(const char *a, const char *b);

/* A requested output: by which option, and where. */
typedef struct outfile_wish {
    const char *option, *path; /* path NULL: not requested */
} outfile_wish;
/* Complains about the later of two that are one file. */
int outfiles_distinct(const outfile_wish *all, int n);

#endif
