/* Threads that meet: whatever one did before, all see after. */
#include "meeting.h"
#include "testing.h"

enum { THREADS = 4, ROUNDS = 2000 };

static meeting all;
static int done[THREADS], missed[THREADS];

/* Twice a round: once all have written, and once all have looked. */
static void *go_round(void *me)
{
    int *mine = me;
    for (int round = 1; round <= ROUNDS; round++) {
        *mine = round;
        meeting_await(&all, THREADS);
        for (int t = 0; t < THREADS; t++) missed[mine - done] += done[t] != round;
        meeting_await(&all, THREADS);
    }
    return NULL;
}

static void nobody_goes_on_before_all_are_there(void **state)
{
    pthread_t thread[THREADS];
    (void)state;
    meeting_open(&all);
    for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_create(&thread[t], NULL, go_round, &done[t]), 0);
    for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_join(thread[t], NULL), 0);
    for (int t = 0; t < THREADS; t++) assert_int_equal(missed[t], 0);
    assert_int_equal(all.round, 2 * ROUNDS);
    meeting_close(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_goes_on_before_all_are_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
