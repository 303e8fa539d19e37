/* hga.h: everything of libhga; graphs and documents in other programs' files are hga_files.h. */
#ifndef HGA_H
#define HGA_H
#include "hga_builders.h"
#include "hga_decode.h"
#include "hga_dist.h"
#include "hga_exchange.h"
#include "hga_file.h"
#include "hga_gradient.h"
#include "hga_graph.h"
#include "hga_halo.h"
#include "hga_inspect.h"
#include "hga_machine.h"
#include "hga_plan.h"
#include "hga_program.h"
#include "hga_variants.h"
#endif
