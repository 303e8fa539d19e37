/* shared_file.h: an output that several ranks (world.h) write parts of, and that appears whole or not at all. */
#ifndef CLI_SHARED_FILE_H
#define CLI_SHARED_FILE_H

#include "outfile.h"

/* All ranks call these together, and get the same status. The folder must be one that all ranks see; what cannot be
   written out of order (a pipe, standard output) is refused. */
int shared_file_open(const char *path, outfile *out);
/* Every rank's part to the system. A command with several files flushes all of them before it keeps the first. */
int shared_file_flush(outfile *out);
int shared_file_keep(outfile *out);

#endif
