/* rank_picture.h: a rank map as .svg or .png. */
#ifndef CLI_RANK_PICTURE_H
#define CLI_RANK_PICTURE_H

#include "rank_blocks.h"

/* Each block as a rectangle over queries x keys, darker the more of its rank it needs, with the rank where there is
   room. */
int rank_picture_write(const rank_map *m, const char *title, const char *path);

#endif
