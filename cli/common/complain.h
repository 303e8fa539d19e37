/* complain.h: exit statuses, one-line errors, and memory that complains when there is none. */
#ifndef CLI_COMPLAIN_H
#define CLI_COMPLAIN_H

#include "hga.h"

/* The exit statuses of the tool. */
enum {
    CLI_GOOD = 0,
    CLI_FAILED = 1, /* a check failed */
    CLI_USAGE = 2,  /* an argument is wrong */
    CLI_DATA = 3,   /* a file is missing or holds something else than it should */
    CLI_OUTSIDE = 4 /* no memory, or something outside of us failed */
};

/* Print "hga: ..." as one line on stderr and return `status`. */
int complain(int status, const char *format, ...) HGA_PRINTF(2, 3);

/* From now on writes only the first complaint, to `buffer`; NULL: prints complaints, as at first. For processes that
   share a command: one of them prints. */
void complain_keep(char *buffer, size_t bytes);

/* The same for a failure of the library, "hga: ABOUT: DETAIL". `blame` says whose fault a rejected value is: CLI_USAGE
   for one that was typed, CLI_DATA for one that was read from a file. HGA_OK returns CLI_GOOD silently. */
int complain_of(hga_status st, int blame, const char *about);

/* What a title calls a file: the path without its folders, or "standard input" for "-". */
const char *file_name(const char *path);

/* "; did you mean 'causal'?" for the known name that is fewest changes away, as long as these are few; else "".
   `hint` holds the text. In nearest.c. */
const char *nearest_hint(const char *typed, const char *const *known, int n, char hint[static 96]);

/* n zeroed elements of `size` bytes, 64-byte aligned, for free(); *out = NULL when n is 0. */
int take(int64_t n, size_t size, void *out);

/* Leave the function, which declares int status, through `done:` with the exit status of a call that failed. */
#define TRY(call)                          \
    do {                                   \
        status = (call);                   \
        if (status != CLI_GOOD) goto done; \
    } while (0)

/* The same where nothing is to be released: return the exit status of a call that failed. */
#define MUST(call)                                 \
    do {                                           \
        int status_of_call = (call);               \
        if (status_of_call) return status_of_call; \
    } while (0)

#endif
