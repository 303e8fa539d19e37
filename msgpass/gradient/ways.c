/* ways.c: the ways as a table, and which one a plan's calls go. */
#include "ways.h"
#include "plan.h"

static const way *const ways[N_WAYS] = {&families_way, &scattered_way, &linear_way,
                                        &subtrees_way, &stages_way,    &plain_way};

/* ---- what a plan keeps ---- */

/* What a way has made, or why it made nothing of this graph. */
typedef struct made_way {
    int tried;
    void *made;
    const char *why;
    reason room;
} made_way;

typedef struct known_choice {
    int known;
    way_choice choice;
    reason room[N_WAYS];
} known_choice;

/* All that goes back needs of a plan: what ways have made, and choices by features. */
typedef struct back {
    hga_plan plan; /* with the stages that count */
    made_way made[N_WAYS];
    known_choice *by_features[CALL_FEATURE_SETS];
} back;

static void drop_ways(const hga_plan *plan, void *what)
{
    back *b = what;
    for (int i = 0; i < N_WAYS; i++)
        if (b->made[i].made) ways[i]->drop(&b->plan, b->made[i].made);
    for (int i = 0; i < CALL_FEATURE_SETS; i++)
        hga_delete(&plan->allocator, b->by_features[i], 1, sizeof *b->by_features[i]);
    hga_delete(&plan->allocator, b, 1, sizeof *b);
}

/* A plan that is to define its gradients keeps all stages. A rank has all rows of some heads, and goes back as one
   process does. */
static hga_status begin_ways(const hga_plan *plan)
{
    back *b;
    hga_status st = hga_new_zero(&plan->allocator, 1, sizeof *b, &b);
    if (st) return st;
    b->plan = *plan;
    b->plan.share = (plan_share){0};
    if (!plan->options.generic) keep_live_stages(&b->plan);
    plan->keeper->back.what = b, plan->keeper->back.drop = drop_ways;
    return HGA_OK;
}

/* ---- choosing ---- */

static hga_status make_way(back *b, int i, const char **why)
{
    made_way *x = &b->made[i];
    hga_status st = HGA_OK;
    if (!x->tried && ways[i]->make) st = ways[i]->make(&b->plan, &x->made, &x->why, &x->room);
    x->tried = !st;
    *why = x->why;
    return st;
}

/* Ways are asked in turn until one does not refuse. */
static hga_status choose(back *b, unsigned features, known_choice *to)
{
    way_choice *x = &to->choice;
    x->plan = &b->plan;
    for (int i = 0; i < N_WAYS && !x->way; i++) {
        x->why[i] = ways[i]->refuses ? ways[i]->refuses(&b->plan, features, &to->room[i]) : NULL;
        hga_status st = x->why[i] ? HGA_OK : make_way(b, i, &x->why[i]);
        if (st) return st;
        if (!x->why[i]) x->way = ways[i], x->made = b->made[i].made;
    }
    to->known = 1;
    return HGA_OK;
}

/* The choice for calls with these features, which the first of them makes and the plan keeps. */
static hga_status choose_under_lock(const hga_plan *plan, unsigned features, const way_choice **out)
{
    hga_status st = plan->keeper->back.what ? HGA_OK : begin_ways(plan);
    if (st) return st;
    back *b = plan->keeper->back.what;
    known_choice **x = &b->by_features[features];
    if (!*x) HGA_TRY(hga_new_zero(&plan->allocator, 1, sizeof **x, x));
    if (!(*x)->known) {
        (*x)->choice.way = NULL;
        HGA_TRY(choose(b, features, *x));
    }
    *out = &(*x)->choice;
done:
    return st;
}

hga_status way_choose(const hga_plan *plan, unsigned features, const way_choice **out)
{
    pthread_mutex_lock(&plan->keeper->lock);
    hga_status st = choose_under_lock(plan, features, out);
    pthread_mutex_unlock(&plan->keeper->lock);
    return st;
}

hga_status way_plan(const hga_plan *plan, const hga_plan **out)
{
    pthread_mutex_lock(&plan->keeper->lock);
    hga_status st = plan->keeper->back.what ? HGA_OK : begin_ways(plan);
    const back *b = plan->keeper->back.what;
    if (!st) *out = &b->plan;
    pthread_mutex_unlock(&plan->keeper->lock);
    return st;
}

/* ---- what is told of it ---- */

const char *hga_plan_gradient_tried(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad, hga_id i,
                                    const char **refusal)
{
    const way_choice *x;
    if (refusal) *refusal = NULL;
    if (!plan || !io != !grad || i < 0 || i >= N_WAYS) return NULL;
    gradient_call c = {.plan = plan, .io = io, .grad = grad};
    if (way_choose(plan, (io ? needs_of(&c) : needs_of_all(plan)).features, &x)) return NULL;
    if (refusal) *refusal = x->why[i];
    return ways[i]->name;
}
