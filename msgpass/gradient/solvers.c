/* solvers.c: the solvers as a table, and which one a plan's calls use. */
#include "solvers.h"
#include "live.h"
#include "plan.h"

static const solver *const solvers[N_SOLVERS] = {&families_solver, &scattered_solver, &linear_solver,
                                                 &subtrees_solver, &stages_solver,    &plain_solver};

/* ---- what a plan caches ---- */

/* What a solver has made, or why it made nothing of this graph. */
typedef struct made_solver {
    int tried;
    void *made;
    const char *why;
    reason buffer;
} made_solver;

typedef struct known_choice {
    int known;
    solver_choice choice;
    reason buffer[N_SOLVERS];
} known_choice;

/* All that the backward pass caches of a plan: what solvers have made, and choices by features. */
typedef struct back {
    hga_plan plan; /* with the stages that count */
    made_solver made[N_SOLVERS];
    known_choice *by_features[CALL_FEATURE_SETS];
} back;

static void drop_solvers(const hga_plan *plan, void *what)
{
    back *b = what;
    for (int i = 0; i < N_SOLVERS; i++)
        if (b->made[i].made) solvers[i]->drop(&b->plan, b->made[i].made);
    for (int i = 0; i < CALL_FEATURE_SETS; i++)
        hga_delete(&plan->memory.allocator, b->by_features[i], 1, sizeof *b->by_features[i]);
    hga_delete(&plan->memory.allocator, b, 1, sizeof *b);
}

/* A plan that is to define its gradients keeps all stages. A rank has all rows of some heads, and computes like one
   process. */
static hga_status begin_solvers(const hga_plan *plan)
{
    back *b;
    hga_status st = hga_new_zero(&plan->memory.allocator, 1, sizeof *b, &b);
    if (st) return st;
    b->plan = *plan;
    b->plan.share = (plan_share){0};
    if (!plan->options.generic) keep_live_stages(&b->plan);
    plan->cache->back.what = b, plan->cache->back.drop = drop_solvers;
    return HGA_OK;
}

/* ---- choosing ---- */

static hga_status make_solver(back *b, int i, const char **why)
{
    made_solver *x = &b->made[i];
    hga_status st = HGA_OK;
    if (!x->tried && solvers[i]->make) st = solvers[i]->make(&b->plan, &x->made, &x->why, &x->buffer);
    x->tried = !st;
    *why = x->why;
    return st;
}

static double estimate(const back *b, int i) { return solvers[i]->estimate ? solvers[i]->estimate(&b->plan) : 0; }

static const char *takes_longer(reason *buffer, double ns, double least)
{
    return reason_of(buffer, "it takes longer: about %.3g ms, not %.3g", ns * 1e-6, least * 1e-6);
}

/* Tries the solvers in order until one does not refuse, and from one that estimates its time on, all that do. */
static hga_status choose(back *b, unsigned features, known_choice *to)
{
    solver_choice *x = &to->choice;
    double least = 0;
    int chosen = 0;
    x->plan = &b->plan;
    for (int i = 0; i < N_SOLVERS && (!x->solver || least > 0); i++) {
        const char *why = solvers[i]->refuses ? solvers[i]->refuses(&b->plan, features, &to->buffer[i]) : NULL;
        double ns = why ? 0 : estimate(b, i);
        if (!why && x->solver && ns >= least) why = takes_longer(&to->buffer[i], ns, least);
        if (!why && (!x->solver || ns > 0)) {
            hga_status st = make_solver(b, i, &why);
            if (st) return st;
            if (!why && x->solver) x->why[chosen] = takes_longer(&to->buffer[chosen], least, ns);
            if (!why) x->solver = solvers[i], x->made = b->made[i].made, chosen = i, least = ns;
        }
        x->why[i] = why;
    }
    for (int i = 0; i < chosen; i++) /* the first without a reason is the one that runs */
        if (!x->why[i]) x->why[i] = "its time is not known, and another's is";
    to->known = 1;
    return HGA_OK;
}

/* The choice for calls with these features; the first such call makes it, and the plan caches it. */
static hga_status choose_under_lock(const hga_plan *plan, unsigned features, const solver_choice **out)
{
    hga_status st = plan->cache->back.what ? HGA_OK : begin_solvers(plan);
    if (st) return st;
    back *b = plan->cache->back.what;
    known_choice **x = &b->by_features[features];
    if (!*x) HGA_TRY(hga_new_zero(&plan->memory.allocator, 1, sizeof **x, x));
    if (!(*x)->known) {
        (*x)->choice.solver = NULL;
        HGA_TRY(choose(b, features, *x));
    }
    *out = &(*x)->choice;
done:
    return st;
}

hga_status solver_choose(const hga_plan *plan, unsigned features, const solver_choice **out)
{
    pthread_mutex_lock(&plan->cache->lock);
    hga_status st = choose_under_lock(plan, features, out);
    pthread_mutex_unlock(&plan->cache->lock);
    return st;
}

hga_status solver_plan(const hga_plan *plan, const hga_plan **out)
{
    pthread_mutex_lock(&plan->cache->lock);
    hga_status st = plan->cache->back.what ? HGA_OK : begin_solvers(plan);
    const back *b = plan->cache->back.what;
    if (!st) *out = &b->plan;
    pthread_mutex_unlock(&plan->cache->lock);
    return st;
}

/* ---- what users see of it ---- */

const char *hga_plan_gradient_tried(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad, hga_id i,
                                    const char **refusal)
{
    const solver_choice *x;
    if (refusal) *refusal = NULL;
    if (!plan || !io != !grad || i < 0 || i >= N_SOLVERS) return NULL;
    gradient_call c = {.plan = plan, .io = io, .grad = grad};
    if (solver_choose(plan, (io ? needs_of(&c) : needs_of_all(plan)).features, &x)) return NULL;
    if (refusal) *refusal = x->why[i];
    return solvers[i]->name;
}
