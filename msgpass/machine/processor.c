/* processor.c: this processor's maker, family, model and caches. */
#include "tuning.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* The maker, family and model from CPUID. */
static void read_maker(processor *p)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(0, &a, &b, &c, &d)) return;
    memcpy(p->maker, &b, 4), memcpy(p->maker + 4, &d, 4), memcpy(p->maker + 8, &c, 4);
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    unsigned family = a >> 8 & 0xf, model = a >> 4 & 0xf;
    if (family == 0xf || family == 6) model += (a >> 16 & 0xf) << 4;
    if (family == 0xf) family += a >> 20 & 0xff;
    p->family = (hga_id)family, p->model = (hga_id)model;
}
#elif defined(__aarch64__)
/* Which of the makers it is, only the system's files tell. */
static void read_maker(processor *p) { strcpy(p->maker, "aarch64"); }
#else
static void read_maker(processor *p) { (void)p; }
#endif

/* Bytes of a cache as the C library knows it; 0 where it does not. */
static int64_t cache(int name)
{
    long bytes = sysconf(name);
    return bytes > 0 ? bytes : 0;
}

static struct {
    pthread_mutex_t lock;
    int known;
    processor here;
} process_under_lock = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Cached: where a hypervisor traps CPUID, reading takes longer than a plan. */
processor processor_here(void)
{
    pthread_mutex_lock(&process_under_lock.lock);
    processor *p = &process_under_lock.here;
    if (!process_under_lock.known) {
        read_maker(p);
        p->second_cache = cache(_SC_LEVEL2_CACHE_SIZE), p->third_cache = cache(_SC_LEVEL3_CACHE_SIZE);
        process_under_lock.known = 1;
    }
    processor here = *p;
    pthread_mutex_unlock(&process_under_lock.lock);
    return here;
}
