/* picture_file.h: pictures of attention in files, and their options. */
#ifndef CLI_PICTURE_FILE_H
#define CLI_PICTURE_FILE_H

#include "arguments.h"

#include "picture.h"
#include "words.h"

typedef enum picture_kind { PICTURE_SVG, PICTURE_PNG } picture_kind;

typedef struct picture_options {
    hga_id width;
    picture_tensors tensors; /* query NULL: the pattern */
    int typed_width, typed_layout;
} picture_options;
/* --width, --query, --key, --head: input is a picture_options. */
extern const option_list picture_list;
/* An option that was typed; NULL: none; the width first. */
const char *picture_requested(const picture_options *o);
int picture_options_check(const picture_options *o);
/* Resets the tensors, the head and the layout as if they had not been typed. */
void picture_forget_tensors(picture_options *o);

/* names: of the tokens; NULL: the graph's. */
int picture_file_write(const hga_graph *g, const hga_program *p, const char *title, const words *names,
                       picture_kind kind, const picture_options *o, const char *path);

#endif
