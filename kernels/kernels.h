/* kernels.h: arithmetic on plain pointers. One table of operations per instruction set; the same source, rows.inc, is
   compiled for each. Softmax is in base 2: callers multiply queries (or their scale) and biases by KERNEL_LOG2E.
   Log-sum-exps are natural. A cap C of scores, in base 2, makes C tanh(s / C) of a score s before its bias is added; 0:
   none. NaN and infinity stay with the rows that see them: a pair without an edge adds nothing, whatever its value
   holds. Keys and values may be of 16 bits: bfloat16, the upper half of a float. Kernels of such operands end in _bf16.
   A pair is a word of two, the first in the low half. Nothing here knows of graphs, programs or threads. No function
   allocates or fails. Results depend on the instruction set, never on the calling thread. */
#ifndef KERNELS_H
#define KERNELS_H

#include "backward.h"
#include "forward.h"

typedef struct kernel_table {
    const char *isa;
    /* state <- state merged with the softmax state of the chunk */
    void (*attend)(const kernel_chunk *c, kernel_state *s);
    /* the chunk's scores alone, out[n] */
    void (*scores)(const kernel_chunk *c, float *out);
    /* the same as attend for all heads of a row, at most KERNEL_HEADS */
    void (*attend_heads)(const kernel_heads *c);
    /* the weights of edges by log-sum-exps that are known: `greatest`, in base 2, +inf where a row has none; states and
       values are left alone */
    void (*weigh_heads)(const kernel_heads *c);
    /* out[h * out_head + j] += sum over i of w[i * heads + h] * x[i][j] */
    void (*sum_heads)(hga_id n, hga_id heads, const float *const *x, hga_id columns, const float *w, float *out,
                      ptrdiff_t out_head);
    /* rows of few edges with narrow heads, finished: out normalised, lse natural; 0 and -inf without edges */
    void (*attend_few_edges)(const kernel_few_edges *c);
    /* whether it takes heads of so many columns */
    int (*few_edges_fit)(hga_id heads, hga_id dim, hga_id dim_v);
    /* the states of rows with few edges, finished: out normalised, lse natural; 0 and -inf without edges */
    void (*attend_family)(const kernel_family *c);
    /* inverse[i] = 1 / sum[i], lse[i] = greatest[i] ln 2 + log sum[i]; 0 and -inf where the state is empty. Outputs may
       be the inputs. */
    void (*finish)(hga_id n, const float *greatest, const float *sum, float *inverse, float *lse);
    /* Finished states with log-sum-exps x and y merge into a of the one and b of the other, with log-sum-exp lse, which
       may be x or y. An empty state changes nothing: where y is -inf, a is 1 and b 0 */
    void (*shares)(hga_id n, const float *x, const float *y, float *a, float *b, float *lse);
    void (*mix)(const kernel_mix *m);
    /* out[i] = log(e^x[i] + e^y[i]) */
    void (*log_add)(hga_id n, const float *x, const float *y, float *out);
    /* sum[head] += mass[i] energy[i][head] for i = 0, .., n - 1, in that order, but for masses of 0 */
    void (*energies)(hga_id n, hga_id heads, const float *energy, const float *mass, double *sum);
    /* share[i] = e^x / (e^x + e^y), rest[i] = e^y / (e^x + e^y); 0 and 1 when x is -inf, else 1 and 0 when y is; both
       times whole[i], unless that is NULL */
    void (*divide)(hga_id n, const float *x, const float *y, const float *whole, float *share, float *rest);
    /* the same as attend for a tile's groups */
    void (*attend_tile)(const kernel_tile *t);
    /* the scores of a tile's first group alone, without its pair biases: out[n][KERNEL_TILE] */
    void (*score_tile)(const kernel_tile *t, float *out);
    /* attend_tile without values: out[i][..][KERNEL_TILE] of group i: the sums of its weights by `each` columns, about
       state.greatest as it is afterwards. dim_v is 0, and nothing is dropped */
    void (*weigh_tile)(const kernel_tile *t, hga_id each, float *const *out);
    /* out[c][r] = base[c][r] + table[index][r], [..][KERNEL_TILE] all three, of n columns c: each has the next many[c]
       of `pick`, index | rows << 16, of which one at most has row r; base NULL: 0 */
    void (*look_up)(hga_id n, const uint8_t *many, const uint32_t *pick, const float *table, const float *base,
                    float *out);
    void (*edge_biases)(const kernel_edge_biases *c);
    /* Columns of KERNEL_TILE rows, x[n][KERNEL_TILE]: bit r of chosen[c] is set for the requested[r] greatest of row r,
       of equal ones the first; never for -inf, and for no more than there are. No x is NaN */
    void (*pick_best)(hga_id n, const int32_t *requested, const float *x, lane_mask *chosen);
    /* attention's adjoint */
    void (*grad_tile)(const kernel_grad_tile *t);
    void (*grad_row)(const kernel_grad_row *t);
    void (*grad_heads)(const kernel_grad_heads *c);
    void (*dot_heads)(const kernel_dots *c);
    /* A family's lse and mean; and, with lse, upstream and delta, its gradients */
    void (*siblings_means)(const kernel_siblings *c);
    void (*siblings_gradients)(const kernel_siblings *c);
    /* x . y, of n floats, summed in double */
    double (*dot)(hga_id n, const float *x, const float *y);
    /* Dropout's factors, 0 or 1 / (1 - dropout), of single pairs in some heads, drop_mask[n][heads]; and as bits of a
       tile's pairs in the requested ones of heads 8 * eight .. 8 * eight + 7: bit r of
       drop_mask[rank among the requested * stride + column] */
    void (*drop_pairs)(const kernel_drop_pairs *d, float *drop_mask);
    void (*drop_bits)(const kernel_drop *d, hga_id eight, uint16_t *drop_mask);
    /* how many of the row's edges have weights; all of them have NaN where one score is NaN or +inf */
    hga_id (*entmax)(const kernel_entmax *c);
    /* its scores alone: out[e] = score[e] + q . (k[e] + r[e]) */
    void (*grad_scores)(const kernel_grad_row *t, float *out);
    /* out[j][r] = a * x[r][j] for n <= KERNEL_TILE rows, 0 for the lanes after them; a row that is NULL is 0 */
    void (*transpose_rows)(hga_id n, const float *const *x, float a, hga_id columns, float *out);
    /* n rows, contiguous: out[i * stride + j] = x[i][j] */
    void (*copy_rows)(hga_id n, const float *const *x, hga_id columns, float *out, ptrdiff_t stride);
    /* the same as attend_heads for keys and values of 16 bits */
    void (*attend_heads_bf16)(const kernel_heads *c);
    /* the same as attend_tile for keys and values of 16 bits, weights rounded to as many before they multiply values;
       NULL, and so are transpose_pairs and pair_rows, where widening keys and values is faster */
    void (*attend_tile_bf16)(const kernel_tile *t);
    /* n <= KERNEL_TILE rows, rounded, into pairs: out[j][r] = x[r][2j], x[r][2j + 1]; 0 after the last column, for the
       lanes after the rows, and for a row that is NULL */
    void (*transpose_pairs)(hga_id n, const float *const *x, hga_id columns, uint32_t *out);
    /* n rows, two by two: out[i * stride + j] = x[2i][j], x[2i + 1][j]; 0 after the last column up to KERNEL_PAD, for
       the row after the last one, and for a row that is NULL */
    void (*pair_rows)(hga_id n, const uint16_t *const *x, hga_id columns, uint32_t *out, ptrdiff_t stride);
    /* out[i] = x[i] rounded to bfloat16, to nearest even, NaN staying NaN (where pairs are multiplied, what is below
       2^-126 may become 0, as in their products); and n rows back, contiguous, which is exact:
       out[i * stride + j] = x[i][j] */
    void (*narrow)(hga_id n, const float *x, uint16_t *out);
    void (*widen)(hga_id n, const uint16_t *const *x, hga_id columns, float *out, ptrdiff_t stride);
    /* out[i] = x[i] of float16 or of bfloat16, exact but that a NaN of float16 becomes quiet; and out[i] = x[i] rounded
       to nearest, ties to even, NaN staying NaN: the bits of widen_f16 .. narrow_bf16 in sixteen.h */
    void (*widen_halves)(int is_f16, hga_id n, const uint16_t *x, float *out);
    void (*narrow_halves)(int is_f16, hga_id n, const float *x, uint16_t *out);
    /* acc[j] += sum over i of w[i] * x[i][offset + j] */
    void (*sum)(hga_id n, const float *const *x, ptrdiff_t offset, const float *w, hga_id columns, float *acc);
    /* out[j] = a * sum over i of w[i] * x[i][offset + j] */
    void (*weigh)(hga_id n, const float *const *x, ptrdiff_t offset, const float *w, float a, hga_id columns,
                  float *out);
    /* The same of n families, whose rows are x[ptr[i] - ptr[0]] and on, times a[i], into out[i]. */
    void (*weigh_families)(hga_id n, const hga_id *ptr, const float *const *x, const float *w, const float *a,
                           hga_id columns, float *const *out);
    /* to[i][j] += w[i] * x[j], of whole vectors, KERNEL_PAD each; rows may repeat */
    void (*give)(hga_id n, hga_id columns, const float *w, const float *x, float *const *to);
    /* n families of contiguous rows, of `columns`, a multiple of KERNEL_PAD: members ptr[i] - ptr[0] .. of family i
       are rows of x, with weights w at the same indices, NULL: 1; of 0: not at all. out[i] = sum of w x over the
       members; and out[member] = x[member] + w[member] y[i], rows of out `stride` apart, where `put` says how; out may
       be x where it is not added to */
    void (*gather)(hga_id n, const hga_id *ptr, const float *w, const float *x, hga_id columns, float *out);
    void (*scatter)(hga_id n, const hga_id *ptr, const float *w, const float *y, hga_id columns, const float *x,
                    ptrdiff_t stride, kernel_put put, float *out);
    /* out[j] = a * x[j] + b * y[j]; out may be x or y */
    void (*blend)(hga_id columns, float a, const float *x, float b, const float *y, float *out);
    /* out[j] = a * x[j]; out may be x */
    void (*scale)(hga_id columns, float a, const float *x, float *out);
    /* n rows x, `stride` floats apart, of a multiple of KERNEL_PAD columns, past the caches; out[i] NULL or at a
       multiple of 64 bytes */
    void (*stream)(hga_id n, hga_id columns, const float *x, ptrdiff_t stride, float *const *out);
    /* makes what mix has sent past the caches visible to all threads */
    void (*streamed)(void);
    /* x[i] = e^x[i]; e^-inf is 0 exactly, e^NaN is NaN */
    void (*exp)(hga_id n, float *x);
    /* x rounded to bfloat16 precision, to nearest even, NaN staying NaN; out may be x */
    void (*round_bf16)(hga_id n, const float *x, float *out);
    /* n fused multiply-adds of full vectors on 12 independent chains; returns flops done. To measure the peak. */
    double (*peak_fma)(hga_pos n, float *sink);
    /* the same for products of bfloat16 pairs; NULL where transpose_pairs is */
    double (*peak_pairs)(hga_pos n, float *sink);
    /* sum of n floats (a multiple of KERNEL_PAD), to measure bandwidth */
    float (*read)(hga_pos n, const float *x);
} kernel_table;

/* The tables compiled in, best last, ended by NULL. Whether this machine can run one is cpu.c's business. */
extern const kernel_table *const kernel_tables[];

#endif
