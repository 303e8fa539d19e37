/* entmax.c: weights c [x - tau]_+^(1 / (alpha - 1)) of x = (alpha - 1) s', s' the score without the logarithm of the
   count c, tau such that they sum to 1 (Peters, Niculae, Martins 2019; counts are ours: so many equal tokens).

   The sum falls and is convex in tau. Where the power is 1 or 2, tau of the first k of the sorted x is a root of a
   polynomial, and k is the greatest that has its own x above. Otherwise Newton, from where one x alone makes the sum 1:
   left of the root, so that steps only go right. */
#include "soften.h"
#include "exponents.h"

enum { MOST_STEPS = 100 };

/* ---- x in descending order, with their counts: a heap, sorted on demand ---- */

static void sift(int64_t n, double *x, double *count, int64_t at)
{
    double a = x[at], c = count[at];
    for (int64_t below; (below = 2 * at + 1) < n; at = below) {
        if (below + 1 < n && x[below + 1] > x[below]) below++;
        if (!(x[below] > a)) break;
        x[at] = x[below], count[at] = count[below];
    }
    x[at] = a, count[at] = c;
}

static void make_heap(int64_t n, double *x, double *count)
{
    for (int64_t i = n / 2; i-- > 0;) sift(n, x, count, i);
}

/* Removes the greatest; returns the number left. */
static int64_t drop_greatest(int64_t n, double *x, double *count)
{
    x[0] = x[n - 1], count[0] = count[n - 1];
    sift(n - 1, x, count, 0);
    return n - 1;
}

/* ---- tau ---- */

static double tau_of_first_powers(int64_t n, double *x, double *count)
{
    double all = 0, mean = 0, tau = -INFINITY;
    for (make_heap(n, x, count); n && x[0] > tau; n = drop_greatest(n, x, count)) {
        all += count[0];
        mean += (x[0] - mean) * count[0] / all;
        tau = mean - 1 / all;
    }
    return tau;
}

/* `spread` is the sum of c (x - mean)^2. */
static double tau_of_squares(int64_t n, double *x, double *count)
{
    double all = 0, mean = 0, spread = 0, tau = -INFINITY;
    for (make_heap(n, x, count); n && x[0] > tau; n = drop_greatest(n, x, count)) {
        double off = x[0] - mean;
        all += count[0];
        mean += off * count[0] / all;
        spread += count[0] * off * (x[0] - mean);
        if (spread >= 1) break;
        tau = mean - sqrt((1 - spread) / all);
    }
    return tau;
}

/* By Newton's steps, until they no longer go right. */
static double tau_by_steps(int64_t n, const double *x, const double *count, double power)
{
    double tau = -INFINITY;
    for (int64_t i = 0; i < n; i++) tau = greater_of(tau, x[i] - pow(count[i], -1 / power));
    for (int step = 0; step < MOST_STEPS; step++) {
        double sum = -1, fall = 0;
        for (int64_t i = 0; i < n; i++) {
            double above = x[i] - tau;
            if (above <= 0) continue;
            double part = count[i] * pow(above, power - 1);
            sum += part * above, fall += power * part;
        }
        double before = tau;
        if (sum > 0) tau += sum / fall;
        if (!(tau > before)) break;
    }
    return tau;
}

double entmax_threshold(double alpha, int64_t n, double *x, double *count)
{
    if (alpha != 2 && alpha != 1.5) return tau_by_steps(n, x, count, 1 / (alpha - 1));
    return (alpha == 2 ? tau_of_first_powers : tau_of_squares)(n, x, count);
}

/* ---- rows ---- */

/* Packs the edges above -inf: x less the greatest, and counts. Returns their number. */
static int64_t pack(const soften_row *r)
{
    int64_t n = 0;
    double greatest = -INFINITY;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->score[i] == -INFINITY) continue;
        r->slope[n] = (r->number - 1) * (r->score[i] - log(r->count[i])), r->d_count[n] = r->count[i];
        greatest = greater_of(greatest, r->slope[n++]);
    }
    for (int64_t i = 0; i < n; i++) r->slope[i] -= greatest;
    return n;
}

/* Edges that get no weight have the score -inf afterwards; there is no log-sum-exp. */
double entmax_weigh(const soften_row *r)
{
    int64_t n = pack(r), at = 0;
    if (!n) {
        for (int64_t i = 0; i < r->n; i++) r->weight[i] = 0;
        return INFINITY;
    }
    double tau = entmax_threshold(r->number, n, r->slope, r->d_count), power = 1 / (r->number - 1), sum = 0;
    pack(r);
    for (int64_t i = 0; i < r->n; i++) {
        double above = r->score[i] == -INFINITY ? 0 : r->slope[at++] - tau;
        sum += r->weight[i] = above <= 0 ? 0 : r->count[i] * entmax_power(above, power); /* NaN stays */
        if (r->weight[i] == 0) r->score[i] = -INFINITY;
    }
    for (int64_t i = 0; i < r->n; i++) r->weight[i] /= sum;
    return INFINITY;
}

/* H is Tsallis', (p - p^alpha) / (alpha (alpha - 1)); of nothing there is nothing. */
double entmax_conjugate(const soften_row *r)
{
    const double alpha = r->number;
    double all = 0, value = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const double p = r->weight[i];
        if (p == 0) continue;
        all += p, value += p * (r->score[i] + (1 - pow(p, alpha - 1)) / (alpha * (alpha - 1)));
    }
    return all == 0 ? -INFINITY : value;
}

/* A weight p changes by u = p^(2 - alpha) c^(alpha - 1) per change of its score, and tau subtracts from all in
   proportion to their u; the conjugate changes by p. */
void entmax_adjoint(const soften_row *r, double d_lse)
{
    double all = 0, along = 0;
    for (int64_t i = 0; i < r->n; i++) {
        double p = r->weight[i], u = p == 0 ? 0 : p * pow(r->count[i] / p, r->number - 1);
        r->d_count[i] = u, all += u;
        if (u != 0) along += u * r->slope[i];
    }
    for (int64_t i = 0; i < r->n; i++) {
        double u = r->d_count[i], slope = u == 0 ? 0 : r->slope[i] - along / all;
        r->slope[i] = u * slope + r->weight[i] * d_lse, r->d_count[i] = r->weight[i] * slope;
    }
}
