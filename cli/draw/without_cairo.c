/* without_cairo.c: in place of png.c where cairo is left out. */
#include "complain.h"
#include "drawing.h"

int png_write(const drawing *d, const char *path)
{
    (void)d;
    return complain(CLI_OUTSIDE,
                    "%s: .png needs cairo, which this tool was built without (HGA_WITH_CAIRO=OFF); .svg does not",
                    path);
}
