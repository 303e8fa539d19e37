/* without_zip.c: in place of read_npz.c where libzip is left out. */
#include "hga_import.h"

hga_status hga_graph_read_npz(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
    (void)a, (void)o;
    *out = NULL;
    return hga_fail(HGA_EUNSUPPORTED, "%s: .npz needs libzip, which this library was built without (HGA_WITH_ZIP=OFF)",
                    path);
}
