/* readers.h: a reader for each format of hga_graph_read, which says what they understand. */
#ifndef HGA_READERS_H
#define HGA_READERS_H

#include "hga_import.h"

hga_status import_mtx(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);
hga_status import_csv(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);
hga_status import_graphml(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);
hga_status import_gml(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);
hga_status import_metis(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);
hga_status import_npy(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);
hga_status import_npz(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);

#endif
