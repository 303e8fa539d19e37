/* without_jax.c: the package was built where XLA's header was not. */
#include "jax.h"

void *hga_py_jax_handler(int which) { return (void)which, NULL; }

hga_status hga_py_jax_speak(int major, int minor)
{
    return hga_fail(HGA_EUNSUPPORTED, "this build has no handlers for XLA %d.%d", major, minor);
}
