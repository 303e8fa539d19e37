/* import_names.h: names of a file's attributes (attributes.c), and Python's dictionaries of edges (edge_data.c). */
#ifndef IMPORT_NAMES_H
#define IMPORT_NAMES_H

#include "import.h"

/* Notes an attribute name, n bytes, of "nodes" or "edges". A name that is ignored once is reported as ignored. */
hga_status import_note_name(import *x, const char *of, const char *name, int64_t n, int understood);
/* The line of hga_import.attributes; *out = NULL where no name was noted. */
hga_status import_tell_names(const import *x, char **out);
/* Reads an edge's weight from a Python dictionary of n bytes, which starts at {. */
hga_status edge_data_read(import *x, const char *text, int64_t n, double *weight);

#endif
