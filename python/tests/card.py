# SPDX-License-Identifier: Apache-2.0
"""A card that is none (tests/fake), as another library in the process would use it: a context, streams, memory.

The fake driver does its work as late as the interface allows, at addresses that crash when the host touches them, and writes down
what a program may not do.
"""
import ctypes
import os

STATUS = ctypes.c_int
POINTER = ctypes.c_void_p
BYTES = ctypes.c_size_t
UNSIGNED = ctypes.c_uint

LOST = 700  # CUDA_ERROR_ILLEGAL_ADDRESS
NO_ROOM = 2  # CUDA_ERROR_OUT_OF_MEMORY


def _function(result, *arguments):
    return ctypes.CFUNCTYPE(result, *arguments)


class Settings(ctypes.Structure):
    """fake_cuda_settings."""

    _fields_ = [("version", ctypes.c_int), ("cards", ctypes.c_int), ("broken_card", ctypes.c_int), ("prohibited", ctypes.c_int),
                ("architecture", ctypes.c_int), ("ptx_max", ctypes.c_int), ("memory_bytes", BYTES), ("eager", ctypes.c_int),
                ("bad_kernel", ctypes.c_char_p)]


class Control(ctypes.Structure):
    """fake_cuda_control."""

    _fields_ = [("reset", _function(None)), ("settings", ctypes.POINTER(Settings)),
                ("fail_at", _function(None, ctypes.c_ulong, ctypes.c_int)), ("calls", _function(ctypes.c_ulong)),
                ("failed", _function(ctypes.c_char_p)), ("faults", _function(ctypes.c_char_p)), ("leaks", _function(ctypes.c_char_p)),
                ("contexts", _function(ctypes.c_int)), ("depth", _function(ctypes.c_int)),
                ("happened", _function(ctypes.c_uint64, POINTER))]


class Card:
    """The library, its controls, and a context of our own on card 0."""

    def __init__(self, file):
        self.library = ctypes.CDLL(file)
        self.control = Control.in_dll(self.library, "fake_cuda")
        self.control.reset()
        self.streams, self.blocks = [], []
        self._inside = False

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        assert status == 0, f"{name}: {status}"

    def enter(self):
        """Once; tests that do not use the driver themselves have no context."""
        if not self._inside:
            self.call("cuInit", 0)
            context = POINTER()
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
            self.call("cuCtxPushCurrent_v2", context)
            self._inside = True

    def stream(self):
        """A handle, as torch's cuda_stream."""
        self.enter()
        handle = POINTER()
        self.call("cuStreamCreate", ctypes.byref(handle), UNSIGNED(0))
        self.streams.append(handle)
        return handle.value

    def snap(self, array, stream):
        """What an array will hold when the stream gets there: a copy that nobody waits for."""
        self.enter()
        block = POINTER()
        self.call("cuMemHostAlloc", ctypes.byref(block), BYTES(array.nbytes), UNSIGNED(1))
        self.blocks.append(block)
        self.call("cuMemcpyDtoHAsync_v2", block, ctypes.c_uint64(array.ptr), BYTES(array.nbytes), POINTER(stream))
        return block.value, array.nbytes

    def finish(self, stream):
        self.call("cuStreamSynchronize", POINTER(stream))

    def read(self, snap):
        return ctypes.string_at(*snap)

    def end(self):
        """Everything of ours goes; what was done wrong, and what is left."""
        for block in self.blocks:
            self.library.cuCtxSynchronize()
            self.library.cuMemFreeHost(block)
        for stream in self.streams:
            self.library.cuStreamDestroy_v2(stream)
        if self._inside:
            self.library.cuCtxPopCurrent_v2(ctypes.byref(POINTER()))
            self.library.cuDevicePrimaryCtxRelease_v2(0)
        left = (self.control.faults(), self.control.leaks(), self.control.contexts(), self.control.depth())
        self.control.reset()
        return left


def files():
    """The libraries of the build, or None."""
    found = os.environ.get("STOKE_TEST_CUDA"), os.environ.get("STOKE_TEST_NVRTC")
    return found if all(found) else None
