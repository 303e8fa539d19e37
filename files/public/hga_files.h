/* hga_files.h: everything of libhga-files: graphs and documents in other programs' files. */
#ifndef HGA_FILES_H
#define HGA_FILES_H
#include "hga_arrays.h"
#include "hga_documents.h"
#include "hga_export.h"
#include "hga_import.h"
#include "hga_view.h"
#endif
