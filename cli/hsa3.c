/* hsa3.c: the operation counts of Amizadeh et al. 2025, Table 3: softmax attention against HSA on hopping windows,
   RoBERTa-base's d = 768 and h = 12. */
#include "hsa3.h"

#include <math.h>

#include "table.h"

enum { DIM = 768, HEADS = 12, LEVELS = 4 };
static const int window[LEVELS] = {2, 4, 8, 16}; /* lowest level first */

/* The paper's figures in millions, with the unit of their last digit: it rounds some and cuts others. */
static const struct {
    const char *data;
    int length;
    double softmax, softmax_unit, hsa, hsa_unit;
} published[] = {
    {"IMDB", 264, 214.94, 0.01, 4.32, 0.01},      {"AGNEWS", 54, 8.99, 0.01, 0.8357, 0.0001},
    {"CoLA", 12, 0.4441, 0.0001, 0.1912, 0.0001}, {"SST-2", 26, 2.08, 0.01, 0.4132, 0.0001},
    {"MRPC", 55, 9.33, 0.01, 0.8481, 0.0001},     {"RTE", 70, 15.11, 0.01, 1.29, 0.01},
    {"QNLI", 38, 4.45, 0.01, 0.5643, 0.0001},
};

/* 4 n^2 d + h n^2 */
static double softmax_count(int n) { return (4.0 * DIM + HEADS) * n * n; }

/* (4 d + h) S, S = sum over levels of ceil(m / b) min(b, m)^2 with m = ceil(m / b) from level to level, and 1 for the
   root */
static double hsa_count(int n)
{
    double sum = 1;
    int m = n;
    for (int l = 0; l < LEVELS; l++) {
        int families = (m + window[l] - 1) / window[l], size = m < window[l] ? m : window[l];
        sum += (double)families * size * size;
        m = families;
    }
    return (4.0 * DIM + HEADS) * sum;
}

static int agrees(double millions, double figure, double unit) { return fabs(millions - figure) < unit; }

static const column columns[] = {
    {"data", "data", NULL, 0},
    {"length", "length", NULL, 0},
    {"softmax_mflops", "softmax M", "%.4f", 0},
    {"softmax_paper", "paper", "%g", 0},
    {"softmax_agrees", "agrees", NULL, 0},
    {"hsa_mflops", "HSA M", "%.4f", 0},
    {"hsa_paper", "paper", "%g", 0},
    {"hsa_agrees", "agrees", NULL, 0},
    {0},
};

int print_hsa3(int json)
{
    json_t *rows = json_array();
    int all = 1;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        double softmax = softmax_count(published[i].length) / 1e6, hsa = hsa_count(published[i].length) / 1e6;
        int softmax_agrees = agrees(softmax, published[i].softmax, published[i].softmax_unit);
        int hsa_agrees = agrees(hsa, published[i].hsa, published[i].hsa_unit);
        json_array_append_new(rows, json_pack("{s:s, s:i, s:f, s:f, s:b, s:f, s:f, s:b}", "data", published[i].data,
                                              "length", published[i].length, "softmax_mflops", softmax, "softmax_paper",
                                              published[i].softmax, "softmax_agrees", softmax_agrees, "hsa_mflops", hsa,
                                              "hsa_paper", published[i].hsa, "hsa_agrees", hsa_agrees));
        all = all && softmax_agrees && hsa_agrees;
    }
    int status = json ? json_print(stdout, json_pack("{s:s, s:b, s:O}", "table", "hsa3", "agrees", all, "rows", rows))
                      : table_print(stdout, rows, columns);
    json_decref(rows);
    return status ? status : all ? CLI_GOOD : CLI_FAILED;
}
