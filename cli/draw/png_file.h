/* png_file.h: a plot as .png. */
#ifndef CLI_PNG_FILE_H
#define CLI_PNG_FILE_H

#include "plot.h"

/* The file says in text chunks where the plot lies ("hga:plot", x y width height) and how many query and key tokens it
   has ("hga:tokens"). */
int png_write_plot(const char *path, const layout *l, const picture *p, const char *title, const plot_words *words);

#endif
