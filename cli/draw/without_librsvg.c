/* without_librsvg.c: in place of png.c where librsvg is left out. */
#include "complain.h"
#include "drawing.h"

int png_write(const drawing *d, const char *path)
{
    (void)d;
    return complain(CLI_OUTSIDE,
                    "%s: .png needs librsvg, which this tool was built without (HGA_WITH_LIBRSVG=OFF); .svg does not",
                    path);
}
