# SPDX-License-Identifier: Apache-2.0
"""The capsules, as their two protocols want them."""
import ctypes
import gc
import threading

import numpy
import pytest

api = ctypes.pythonapi
api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("dims", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


# A capsule keeps the address of its name and no copy, so these must outlive every capsule.
USED = {name: b"used_" + name for name in (b"dltensor", b"dltensor_versioned")}


def take(capsule, kind, name):
    """What a consumer does: reads the struct and renames the capsule."""
    assert api.PyCapsule_IsValid(capsule, name)
    pointer = api.PyCapsule_GetPointer(capsule, name)
    api.PyCapsule_SetName(capsule, USED[name])
    return pointer, kind.from_address(pointer)


@pytest.mark.parametrize("versioned", [False, True])
def test_capsules(make, versioned):
    loader = make(output="dlpack", mask_dtype="i64")
    images, masks = next(iter(loader))
    assert images.__dlpack_device__() == (1, 0)
    assert (images.shape, images.dtype, images.nbytes) == ((4, 3, 32, 32), "float32", 4 * 3 * 32 * 32 * 4)
    assert images.strides == (3 * 32 * 32 * 4, 32 * 32 * 4, 32 * 4, 4)
    assert repr(images) == "<stokehold array (4, 3, 32, 32) float32>"
    kind, name = (Versioned, b"dltensor_versioned") if versioned else (Managed, b"dltensor")
    for array, dtype in ((images, (2, 32)), (masks, (0, 64))):
        capsule = array.__dlpack__(max_version=(1, 1)) if versioned else array.__dlpack__()
        pointer, struct = take(capsule, kind, name)
        tensor = struct.tensor
        assert tensor.data == array.ptr and (tensor.device_type, tensor.device_id) == (1, 0)
        assert (tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (*dtype, 1, 0)
        assert tuple(tensor.shape[:tensor.dims]) == array.shape
        assert tuple(step * tensor.bits // 8 for step in tensor.strides[:tensor.dims]) == array.strides
        if versioned:
            assert (struct.major, struct.minor, struct.flags) == (1, 0, 0)
        delete = struct.deleter
        del capsule  # was taken: nothing happens
        delete(pointer)
    assert loader.stats().held == 1
    del array, images, masks
    assert loader.stats().held == 0


def test_a_deleter_needs_no_gil(make):
    """ctypes lets go of the GIL for a call: what a thread of autograd does."""
    loader = make(output="dlpack")
    pointers = []
    for images, masks in [next(iter(loader)) for _ in range(2)]:
        for array in (images, masks):
            pointers.append(take(array.__dlpack__(), Managed, b"dltensor"))
    del images, masks, array
    gc.collect()
    assert loader.stats().held == 2
    threads = [threading.Thread(target=struct.deleter, args=(pointer,)) for pointer, struct in pointers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loader.stats().held == 0


def test_capsules_nobody_took_let_go(make):
    loader = make(output="dlpack")
    images, masks = next(iter(loader))
    capsules = [images.__dlpack__(), masks.__dlpack__(max_version=(1, 0)), images.__dlpack__(max_version=(0, 8))]
    del images, masks
    assert loader.stats().held == 1
    del capsules
    assert loader.stats().held == 0


def test_copies_on_request(make):
    loader = make(output="dlpack", channels_last=True)
    images, _ = next(iter(loader))
    pointer, struct = take(images.__dlpack__(max_version=(1, 0), copy=True), Versioned, b"dltensor_versioned")
    assert struct.flags == 2 and struct.tensor.data != images.ptr
    size = images.nbytes
    assert ctypes.string_at(struct.tensor.data, size) == ctypes.string_at(images.ptr, size)
    struct.deleter(pointer)


def test_what_cannot_be_is_refused(make):
    images, _ = next(iter(make(output="dlpack")))
    with pytest.raises(BufferError, match="another device"):
        images.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError, match="max_version"):
        images.__dlpack__(max_version=1)
    with pytest.raises(TypeError):
        images.__dlpack__(1)  # by name only
    with pytest.raises(TypeError, match="only stokehold"):
        type(images)()


def test_numpy_reads_them(make):
    images, masks = next(iter(make(output="dlpack", channels_last=True)))
    for array in (images, masks):
        by_interface, by_dlpack = numpy.asarray(array), numpy.from_dlpack(array)
        assert by_interface.ctypes.data == by_dlpack.ctypes.data == array.ptr
        assert by_interface.shape == by_dlpack.shape == array.shape
        assert by_interface.strides == by_dlpack.strides == array.strides


def test_bfloat16_is_not_for_numpy(make, torch):
    with pytest.raises(ValueError, match="no bfloat16"):
        make(dtype="bfloat16")
    images, _ = next(iter(make(output="dlpack", dtype="bf16")))
    with pytest.raises(TypeError, match="no bfloat16"):
        numpy.asarray(images)
    assert torch.from_dlpack(images).dtype == torch.bfloat16
