/* file.h: files that appear whole or not at all. Other processes do not see a file until it is kept: it has no name
   (O_TMPFILE) where the file system has such files, else a temporary name beside the target. A file that replaces
   another keeps its mode. A symbolic link stays; the file that it names is replaced. Devices, pipes, standard output
   ("-") and open descriptors (/dev/stdout, /dev/fd/3) are written as they are. Every writer of this library uses it.

   A hga_file belongs to one thread at a time. Errors name the path. Not installed: libhga exports these functions for
   libhga-files and the tool. */
#ifndef HGA_FILE_H
#define HGA_FILE_H

#include "hga_base.h"

#include <stdio.h>

enum { HGA_PATH_BYTES = 4096 };

/* Zeroed: no file. */
typedef struct hga_file {
    FILE *stream; /* to write to */
    int in_place; /* a device, a pipe, standard output or a descriptor */
    int slot;     /* of the temporary name, as hga_files_abandon() knows it; 0: it has none */
    char path[HGA_PATH_BYTES], target[HGA_PATH_BYTES], temporary[HGA_PATH_BYTES]; /* as given; without links; or "" */
} hga_file;

/* Begin to write a file, which appears under `path` only when hga_file_keep has succeeded. HGA_EIO when it cannot be
   written, HGA_EINVAL for an empty path. */
HGA_API hga_status hga_file_open(hga_file *f, const char *path);
/* Give the file the name f->temporary until it is kept or dropped, so that other processes can open it and write their
   part. HGA_EINVAL: it is written in place; HGA_EIO. */
HGA_API hga_status hga_file_share(hga_file *f);
/* Write buffered data to the system: HGA_EIO when that fails (a full disk), or when an earlier write to the stream
   failed. A caller with several files flushes all of them before it keeps the first, so that they appear together. */
HGA_API hga_status hga_file_flush(hga_file *f);
/* Flush, close, and give the file its name. On failure the new file is removed, and an earlier file of that
   name stays. */
HGA_API hga_status hga_file_keep(hga_file *f);
/* Close and remove what was not kept; harmless on a zeroed or kept file. */
HGA_API void hga_file_drop(hga_file *f);

/* Remove the temporary names of all files that are open in this process, for a signal handler that ends it:
   async-signal-safe. */
HGA_API void hga_files_abandon(void);

#endif
