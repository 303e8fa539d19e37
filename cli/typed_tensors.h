/* typed_tensors.h: the tensors of an execution as typed, in every command that executes on files: --query, --key,
   --value, --out, --lse, --layout, --out-type, --quiet. */
#ifndef CLI_TYPED_TENSORS_H
#define CLI_TYPED_TENSORS_H

#include "arguments.h"

#include "attend_io.h"

typedef struct typed_tensors {
    attend_paths paths;
    tensor_layout layout;
    const char *out_type;
    int quiet;
} typed_tensors;

/* Input is a typed_tensors. */
extern const option_list tensors_list;

/* Is everything there that must be, and no file named for two things? */
int tensors_check(const typed_tensors *typed);
/* The type in which results are written. */
element tensors_out_type(const typed_tensors *typed, const tensor_file *query);

#endif
