/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sample stands at which position of an epoch, and how an epoch is cut into batches:
 * <stoke/tools/order.h> for Python.
 */
#include <stoke/tools/order.h>

#include "python/src/values.h"

static int read_order(PyObject *args, const char *format, stoke_order *order, unsigned long long *position,
                      unsigned int *n)
{
    unsigned long long count, seed, epoch;
    int shuffle;
    if (!PyArg_ParseTuple(args, format, &count, &seed, &epoch, &shuffle, position, n)) return -1;
    *order = (stoke_order){ .count = count,
                            .seed = seed,
                            .epoch = epoch,
                            .kind = shuffle ? STOKE_ORDER_SHUFFLE : STOKE_ORDER_SEQUENTIAL };
    if (count) return 0;
    return py_refuse(PyExc_ValueError, "there are no samples");
}

static PyObject *order_ids(PyObject *module, PyObject *args)
{
    unsigned long long position;
    unsigned int rows;
    stoke_order order;
    if (read_order(args, "KKKpKI:order", &order, &position, &rows)) return NULL;
    PyObject *list = PyList_New(0);
    for (unsigned int i = 0; list && i < rows; i++)
        py_add(&list, PyLong_FromUnsignedLongLong(stoke_order_at(&order, position + i)));
    return list;
}

static PyObject *order_substitute(PyObject *module, PyObject *args)
{
    unsigned long long position;
    unsigned int attempt;
    stoke_order order;
    if (read_order(args, "KKKpKI:substitute", &order, &position, &attempt)) return NULL;
    return PyLong_FromUnsignedLongLong(stoke_order_substitute(&order, position, attempt));
}

static int read_shard(PyObject *args, const char *format, stoke_rank *shard, unsigned long long *k)
{
    unsigned long long count, start;
    if (!PyArg_ParseTuple(args, format, &count, &start, &shard->batch, &shard->rank, &shard->world,
                          &shard->drop_last, k))
        return -1;
    shard->count = count;
    shard->start = start;
    if (shard->batch && shard->world && shard->rank < shard->world) return 0;
    return py_refuse(PyExc_ValueError, "a batch has one row at least, and rank is below world");
}

static PyObject *shard_batches(PyObject *module, PyObject *args)
{
    stoke_rank shard;
    unsigned long long k;
    if (read_shard(args, "KKIIIp:shard_batches", &shard, &k)) return NULL;
    return PyLong_FromUnsignedLongLong(stoke_rank_batches(&shard));
}

static PyObject *shard_batch(PyObject *module, PyObject *args)
{
    stoke_rank shard;
    unsigned long long k;
    uint32_t rows;
    if (read_shard(args, "KKIIIpK:shard_batch", &shard, &k)) return NULL;
    const uint64_t position = stoke_rank_batch(&shard, k, &rows);
    return Py_BuildValue("(KI)", (unsigned long long)position, (unsigned int)rows);
}

PyMethodDef py_order_functions[] = {
    { "order", order_ids, METH_VARARGS,
      "order(count, seed, epoch, shuffle, position, rows) -> list of int: the samples at those positions." },
    { "substitute", order_substitute, METH_VARARGS,
      "substitute(count, seed, epoch, shuffle, position, attempt) -> int: for a bad sample." },
    { "shard_batches", shard_batches, METH_VARARGS,
      "shard_batches(count, start, batch, rank, world, drop_last) -> int: batches of a rank." },
    { "shard_batch", shard_batch, METH_VARARGS,
      "shard_batch(count, start, batch, rank, world, drop_last, k) -> (position, rows) of its batch k." },
    { 0 },
};
