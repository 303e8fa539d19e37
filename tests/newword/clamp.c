/* clamp.c: the new word in C: by a call, by the program, in JSON, and refused where it means nothing. */
#include <hga.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 7, DIM = 3 };

#define MUST(holds)                                                    \
    do {                                                               \
        if (!(holds)) {                                                \
            printf("not true: %s (%s)\n", #holds, hga_error_detail()); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

static float q[N][DIM], k[N][DIM], v[N][DIM];

/* Softmax of contents that go from -c to c, and no further. */
static double wanted(int i, int column, double c)
{
    double all = 0, sum = 0;
    for (int j = 0; j < N; j++) {
        double content = 0;
        for (int d = 0; d < DIM; d++) content += (double)q[i][d] * (double)k[j][d] / sqrt(DIM);
        double weight = exp(fmin(fmax(content, -c), c));
        all += weight, sum += weight * (double)v[j][column];
    }
    return sum / all;
}

static void hold(float out[N][DIM], double c)
{
    for (int i = 0; i < N; i++)
        for (int d = 0; d < DIM; d++) MUST(fabs((double)out[i][d] - wanted(i, d, c)) < 1e-5);
    memset(out, 0, sizeof(float[N][DIM]));
}

int main(void)
{
    float clamp = 0.5f, out[N][DIM];
    hga_graph *g;
    hga_program p, again;
    char *text;
    for (int i = 0; i < N; i++)
        for (int d = 0; d < DIM; d++) {
            int at = i * DIM + d;
            q[i][d] = sinf((float)at) * 2, k[i][d] = cosf((float)at * 3) * 2, v[i][d] = (float)(at % 5);
        }
    hga_shape shape = {.n_heads = 1, .dim = DIM};
    hga_options plain = {.generic = 1}, fused = {0};
    hga_io io = {.query = {q, N}, .key = {k, N}, .value = {v, N}, .out = {out, N}};
    MUST(hga_build("dense", N, &g, &p) == HGA_OK);
    MUST(hga_attention(g, &p, &shape, &plain, &io) == HGA_OK);
    hold(out, INFINITY);
    io.clamp.data = &clamp;
    MUST(hga_attention(g, &p, &shape, &plain, &io) == HGA_OK);
    hold(out, 0.5);
    MUST(hga_attention(g, &p, &shape, &fused, &io) == HGA_EUNSUPPORTED && strstr(hga_error_detail(), "clamp"));
    clamp = -1;
    MUST(hga_attention(g, &p, &shape, &plain, &io) == HGA_EINVAL && strstr(hga_error_detail(), "clamp -1 is not"));
    io.clamp.data = NULL, p.clamp = 0.25f;
    MUST(hga_program_to_json(&p, g, &text) == HGA_OK && strstr(text, "\"clamp\": 0.25"));
    MUST(hga_program_from_json(text, g, &again) == HGA_OK && again.clamp == 0.25f);
    MUST(hga_attention(g, &again, &shape, &fused, &io) == HGA_OK);
    hold(out, 0.25);
    p.clamp = -2;
    MUST(hga_attention(g, &p, &shape, &fused, &io) == HGA_EPROGRAM && strstr(hga_error_detail(), "clamp -2 is not"));
    hga_text_free(text), hga_graph_destroy(g);
    puts("C: by a call, by the program, in JSON, refused");
    return 0;
}
