/* arm_count.c: a plugin of qemu's that counts instructions, for arm.sh: qemu-aarch64 -plugin FILE PROGRAM prints
   `instructions N` on stderr when the program ends. Debian's qemu-user has no header of the interface, so what is used
   of it is declared here. */
#include <inttypes.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb; /* a block of instructions without a jump inside */
enum { ADD_TO_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*translated)(plugin_id, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int operation, void *to, uint64_t number);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*ended)(plugin_id, void *), void *data);

#define EXPORTED __attribute__((visibility("default")))
EXPORTED extern int qemu_plugin_version;
EXPORTED int qemu_plugin_install(plugin_id id, const void *info, int n_words, char **word);

int qemu_plugin_version = 1;
static uint64_t executed; /* of one thread */

static void count_block(plugin_id id, struct qemu_plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD_TO_U64, &executed, qemu_plugin_tb_n_insns(tb));
}

static void print_count(plugin_id id, void *data)
{
    (void)id, (void)data;
    fprintf(stderr, "instructions %" PRIu64 "\n", executed);
}

int qemu_plugin_install(plugin_id id, const void *info, int n_words, char **word)
{
    (void)info, (void)n_words, (void)word;
    qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
    qemu_plugin_register_atexit_cb(id, print_count, NULL);
    return 0;
}
