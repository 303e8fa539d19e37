/* rows.c: a C extension for Python that is built against the installed package hga: a module with one function,

       rows.attend("htransformer block=16", q, k, v, out)

   which builds a hierarchy in C and attends with it. Arrays are float32 [tokens][heads][dim], packed, such as numpy's.
   It shares libhga with the package: README.md beside it says how it is compiled. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <hga.h>

enum { QUERY, KEY, VALUE, OUT, N_ARRAYS };
static const char *const names[N_ARRAYS] = {"query", "key", "value", "out"};

/* What the library refused, as an exception with its words. */
static int raised(hga_status status)
{
    if (status == HGA_ENOMEM)
        PyErr_NoMemory();
    else if (status)
        PyErr_Format(PyExc_ValueError, "%s: %s", hga_status_name(status), hga_error_detail());
    return status != HGA_OK;
}

/* Arrays of one shape, but for the last. */
static int are_like(const Py_buffer *view)
{
    for (int i = 0; i < N_ARRAYS; i++) {
        const Py_buffer *x = &view[i];
        int fits = x->ndim == 3 && x->itemsize == 4 && x->format && x->format[0] == 'f';
        for (int axis = 0; fits && axis < 3; axis++) fits = x->shape[axis] == view[0].shape[axis];
        if (fits) continue;
        PyErr_Format(PyExc_ValueError, "%s is no float32 [tokens][heads][dim] like query", names[i]);
        return 0;
    }
    return 1;
}

static hga_status attend(const char *words, const Py_buffer *view)
{
    hga_graph *graph = NULL;
    hga_program program;
    hga_id tokens = (hga_id)view[0].shape[0];
    hga_shape shape = {.n_heads = (hga_id)view[0].shape[1], .dim = (hga_id)view[0].shape[2]};
    hga_options options = {.threads = 0};
    hga_io io = {.query = {.data = view[QUERY].buf, .rows = tokens}, .key = {.data = view[KEY].buf, .rows = tokens}};
    io.value = (hga_tensor){.data = view[VALUE].buf, .rows = tokens};
    io.out = (hga_tensor){.data = view[OUT].buf, .rows = tokens};
    hga_status st = hga_build(words, tokens, &graph, &program);
    if (!st) st = hga_attention(graph, &program, &shape, &options, &io);
    hga_graph_destroy(graph);
    return st;
}

static PyObject *attend_arrays(PyObject *self, PyObject *args)
{
    const char *words;
    PyObject *given[N_ARRAYS];
    Py_buffer view[N_ARRAYS];
    int n = 0, failed = 1;
    (void)self;
    if (!PyArg_ParseTuple(args, "sOOOO", &words, &given[QUERY], &given[KEY], &given[VALUE], &given[OUT])) return NULL;
    while (n < N_ARRAYS && PyObject_GetBuffer(given[n], &view[n],
                                              PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (n == OUT ? PyBUF_WRITABLE : 0)) == 0)
        n++;
    if (n == N_ARRAYS && are_like(view)) {
        PyThreadState *others = PyEval_SaveThread(); /* run meanwhile */
        hga_status st = attend(words, view);
        PyEval_RestoreThread(others);
        failed = raised(st);
    }
    while (n > 0) PyBuffer_Release(&view[--n]);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"attend", attend_arrays, METH_VARARGS,
                                 "attend(words, q, k, v, out): attention over a hierarchy in words, into out"},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "rows", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_rows(void);
PyMODINIT_FUNC PyInit_rows(void) { return PyModule_Create(&module); }
