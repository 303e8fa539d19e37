/* ascii.h: the attention pattern as characters. */
#ifndef CLI_ASCII_H
#define CLI_ASCII_H

#include <jansson.h>

#include "complain.h"

enum { ASCII_WIDTH = 64, ASCII_MOST = 256 };

/* Query tokens down, key tokens across, at most `width` of each; `about` names the graph in complaints. Returns a
   document with the lines and what their characters mean. */
int ascii_draw(const hga_graph *g, const hga_program *p, hga_id width, const char *about, json_t **out);
void ascii_print(const json_t *drawing);

#endif
