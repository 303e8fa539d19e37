/* entmax.c: weights c [x - tau]_+^(1 / (alpha - 1)) of x = (alpha - 1) s', s' the score without the logarithm of the
   count c, tau such that they sum to 1 (Peters, Niculae, Martins 2019; counts are ours: so many equal tokens).

   The sum falls and is convex in tau. Where the power is 1 or 2, tau of the first k of the sorted x is a root of a
   polynomial, and k is the greatest that has its own x above. Otherwise Newton, from where one x alone makes the sum 1:
   left of the root, so that steps only go right. */
#include "soften.h"
#include "exponents.h"

enum { MOST_STEPS = 100 };

/* ---- what is sorted: x falling, with its count ---- */

static void swap(const soften_row *r, int64_t i, int64_t j)
{
    double x = r->slope[i], c = r->d_count[i];
    r->slope[i] = r->slope[j], r->d_count[i] = r->d_count[j];
    r->slope[j] = x, r->d_count[j] = c;
}

/* A heap has its least on top. */
static void sift(const soften_row *r, int64_t at, int64_t n)
{
    for (int64_t least = at;; at = least) {
        for (int64_t below = 2 * at + 1; below <= 2 * at + 2 && below < n; below++)
            if (r->slope[below] < r->slope[least]) least = below;
        if (least == at) return;
        swap(r, at, least);
    }
}

static void sort(const soften_row *r, int64_t n)
{
    for (int64_t i = n / 2; i-- > 0;) sift(r, i, n);
    for (int64_t i = n; i-- > 1;) swap(r, 0, i), sift(r, 0, i);
}

/* ---- tau, of x less the greatest ---- */

static double tau_of_first_powers(const soften_row *r, int64_t n)
{
    double count = 0, mean = 0, tau = -INFINITY;
    for (int64_t i = 0; i < n && r->slope[i] > tau; i++) {
        count += r->d_count[i];
        mean += (r->slope[i] - mean) * r->d_count[i] / count;
        tau = mean - 1 / count;
    }
    return tau;
}

/* `spread` is the sum of c (x - mean)^2. */
static double tau_of_squares(const soften_row *r, int64_t n)
{
    double count = 0, mean = 0, spread = 0, tau = -INFINITY;
    for (int64_t i = 0; i < n && r->slope[i] > tau; i++) {
        double off = r->slope[i] - mean;
        count += r->d_count[i];
        mean += off * r->d_count[i] / count;
        spread += r->d_count[i] * off * (r->slope[i] - mean);
        tau = spread < 1 ? mean - sqrt((1 - spread) / count) : tau;
        if (spread >= 1) break;
    }
    return tau;
}

static double tau_by_steps(const soften_row *r, int64_t n, double power)
{
    double tau = -INFINITY;
    for (int64_t i = 0; i < n; i++) tau = greater_of(tau, r->slope[i] - pow(r->d_count[i], -1 / power));
    for (int step = 0; step < MOST_STEPS; step++) {
        double sum = -1, fall = 0;
        for (int64_t i = 0; i < n; i++) {
            double above = r->slope[i] - tau;
            if (above <= 0) continue;
            double part = r->d_count[i] * pow(above, power - 1);
            sum += part * above, fall += power * part;
        }
        if (sum <= 0) break;
        tau += sum / fall;
    }
    return tau;
}

/* ---- rows ---- */

/* Edges that are there, packed: x less the greatest, and counts. Returns how many; 0 where nothing is above -inf. */
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

static double threshold(const soften_row *r, int64_t n)
{
    if (r->number != 2 && r->number != 1.5) return tau_by_steps(r, n, 1 / (r->number - 1));
    sort(r, n);
    return r->number == 2 ? tau_of_first_powers(r, n) : tau_of_squares(r, n);
}

double entmax_weigh(const soften_row *r)
{
    int64_t n = pack(r), at = 0;
    if (!n) {
        for (int64_t i = 0; i < r->n; i++) r->weight[i] = 0;
        return INFINITY;
    }
    double tau = threshold(r, n), power = 1 / (r->number - 1), sum = 0;
    pack(r);
    for (int64_t i = 0; i < r->n; i++) {
        double above = r->score[i] == -INFINITY ? 0 : r->slope[at++] - tau;
        sum += r->weight[i] = above > 0 ? r->count[i] * pow(above, power) : 0;
        if (r->weight[i] == 0) r->score[i] = -INFINITY;
    }
    for (int64_t i = 0; i < r->n; i++) r->weight[i] /= sum;
    return INFINITY;
}

/* A weight of p moves by u = p^(2 - alpha) c^(alpha - 1) with its score, and tau takes from all by their u. */
void entmax_adjoint(const soften_row *r, double d_lse)
{
    double all = 0, along = 0;
    (void)d_lse;
    for (int64_t i = 0; i < r->n; i++) {
        double p = r->weight[i], u = p == 0 ? 0 : p * pow(r->count[i] / p, r->number - 1);
        r->d_count[i] = u, all += u;
        if (u != 0) along += u * r->slope[i];
    }
    for (int64_t i = 0; i < r->n; i++) {
        double u = r->d_count[i], slope = u == 0 ? 0 : r->slope[i] - along / all;
        r->slope[i] = u * slope, r->d_count[i] = r->weight[i] * slope;
    }
}
