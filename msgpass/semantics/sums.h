/* sums.h: the constants that decide the order of sums, and with it the last bits of every result. One set for all
   machines and all instruction sets, which differ only in the width of their vectors: never the processor, nor what was
   measured while running. (What depends on the processor is machine/tuning.h, and changes no bit.) A change here
   changes results' bits. */
#ifndef SUMS_H
#define SUMS_H

/* ---- tiles, forward ---- */

/* A column in a tile costs about as much as this many of its sixteen pairs in the row kernel; a segment with fewer
   edges stays with the rows. Measured alternately on avx512, avx2 and ref, on trees' relations of fine and coarse
   blocks: 0.3 to 0.6 are alike everywhere, 0.2 takes up to a tenth longer, 0.12 up to a fifth; one number does for all.
   */
static const double TILE_SHARE = 0.45;

/* A group with less than this share of its pairs is faster as separate families than as one tile (measured). */
static const double FAMILY_SHARE = 0.45;

/* Rows with edges of several segments run as families where a query has at least so many numbers in all heads: tiles
   take about as long for 1 x 64 as for 2 x 64, families half (measured with 1 to 16 heads of 8 to 256). */
enum { SHORT_ROWS_NUMBERS = 128 };

/* ---- rows in splits ---- */

/* The default of hga_options.cut_edges; rows with more edges, and more than a 64th of all edges, are divided among
   threads by splits: there are fewer than 64 of them. */
enum { CUT_EDGES = 16384, MOST_LONG = 64 };

/* Rows that share no columns with others, as spans and their tokens, with more edges than LONG_ALONE, are cut into
   splits of SPLIT_ALONE (measured: 256 read from memory half of the time, 32 take as long to merge). */
enum { LONG_ALONE = 64, SPLIT_ALONE = 64 };

/* Where columns have on average at least so many such rows each, splits are computed in tiles, which take about as long
   for one row as the row kernel does for two, and rows with more edges than LONG_TOGETHER join them (measured: 15 gains
   nothing). */
enum { SPLIT_GROUP_EDGES = 3, LONG_TOGETHER = 31 };

/* Sums and means of such rows are cut into splits of so many edges: their operands should still be in cache for other
   splits and panels that read them (measured). */
enum { SPLIT_SUM = 512 };

/* A float stops counting at 2^24: after so many edges long rows add their sums to doubles, which are converted back at
   the end. */
enum { SUM_CUT = 4096 };

/* The level at which trees are cut on the way down: tokens of the level's first subtree, which for most trees is like
   the others (measured). The level must not depend on how many levels are above it. Rows find their ancestor at the cut
   by walking up, so it is not far above them. */
enum { CUT_TOKENS = 32, HIGHEST_CUT = 16 };

/* ---- backward ---- */

/* A window of columns is computed in tiles when at least one in WINDOW_SHARE of its pairs has an edge. */
enum { WINDOW_SHARE = 6 };

/* The backward pass of an attended stage has at most so many row ranges (hga_options.gradient_row_ranges), in whole
   panels of ROW_RANGE_PANEL; their sources come in chunks of CHUNK. */
enum { MOST_ROW_RANGES = 16, ROW_RANGE_PANEL = 128, CHUNK = 64 };

/* The number of row ranges: least rows or subtrees of one, most heads times row ranges; and the cost in edges of adding
   a row to another, by so many heads at most. */
enum { LEAST_ROWS = 1024, LEAST_SUBTREES = 2, MOST_SHARES = 64, EDGES_A_ROW = 16, BACK_HEADS = 8 };

/* Subtrees (hga_options.gradient_subtree): rows of a subtree's seven fields should take 1 MB of a second-level cache; a
   level's nodes in it should fill a group. */
enum { SUBTREE_NUMBERS = 32768, SUBTREE_LEAST = 64, SUBTREE_MOST = 1024 };

/* Families: at least so many shares where families are small, whatever the threads, and members of one. */
enum { SHARES = 64, LEAST_MEMBERS = 512 };

#endif
