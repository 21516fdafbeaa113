# SPDX-License-Identifier: Apache-2.0
"""Who takes part: the environments with their pinned packages, and the entrants with how each is run.

A peer runs in the form that was fastest on two cores among those its users would write; where the usual form differs
from an expert's, both take part. A new peer is a file in peers/ and a line here."""
from dataclasses import dataclass, field

# glibc gives large blocks back to the kernel and faults them in again for every batch; this keeps them. An expert's
# setting: it helps peers that allocate a batch at a time (up to 20 %) and is part of what is called an expert form.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "4000000000", "MALLOC_TOP_PAD_": "67108864"}

# One environment per set of packages that cannot live together. "torch" is large: the others that need it are pointed
# at it instead of having their own copy. A step is a list of pip arguments.
TORCH = "torch"
ENVIRONMENTS = {
    "torch": {"needs_torch": False, "steps": [
        ["torch==2.13.0", "torchvision==0.28.0", "numpy==2.4.6", "pillow"],
        ["albumentations==2.0.8", "opencv-python-headless==5.0.0.93", "webdataset==1.0.2", "kornia==0.9.0"]]},
    "dali": {"needs_torch": False, "steps": [["nvidia-dali-cuda130==2.4.0", "numpy==2.4.6"]]},
    "spdl": {"needs_torch": False, "steps": [["spdl==0.8.0", "spdl-io==0.8.0", "opencv-python-headless==5.0.0.93",
                                              "numpy==2.4.6"]]},
    # Builds from source: needs libopencv-dev, libturbojpeg0-dev and pkg-config; its setup script is older than
    # isolated builds, and its pinned dependencies are older than this Python.
    "ffcv": {"needs_torch": True, "steps": [
        ["setuptools<81", "wheel", "cython"],
        ["numba==0.68.1", "opencv-python-headless==4.12.0.88", "albumentations==2.0.8", "terminaltables", "fastargs",
         "pytorch-pfn-extras", "assertpy", "psutil", "tqdm", "pandas", "imgcat"],
        ["--no-deps", "--no-build-isolation", "ffcv==1.0.2"]]},
}
# Packages whose versions are recorded, where an environment has them.
RECORDED = ["torch", "torchvision", "numpy", "pillow", "opencv-python-headless", "albumentations", "kornia",
            "webdataset", "ffcv", "numba", "nvidia-dali-cuda130", "spdl"]


@dataclass
class Entrant:
    key: str
    title: str
    # "stoke": our own command, with `arguments`; "bare": its reference; "loader": our package, "peer": another, a file in peers/
    kind: str
    environment: str = ""
    module: str = ""
    arguments: list = field(default_factory=list)
    variables: dict = field(default_factory=dict)
    group: str = "full"  # "full": the whole chain to floats; "bytes": stored samples as bytes, no augmentation


# Masks as 64-bit integers, as torch's losses want them and all peers deliver them here.
FULL = ["--dtype", "f32", "--mask-dtype", "i64", "--normalize", "imagenet", "--augment", "standard"]
BYTES = ["--dtype", "u8", "--normalize", "none", "--layout", "hwc", "--augment", "none", "--mask-dtype", "u8"]

ENTRANTS = [
    Entrant("bare", "bare decoding: libjpeg-turbo + libspng", "bare", arguments=["--data", "{folder}"]),
    Entrant("stokehold", "Stokehold, folder", "stoke", arguments=["--data", "{folder}", *FULL]),
    Entrant("stokehold-tar", "Stokehold, tar shards", "stoke", arguments=["--data", "{shards}", *FULL]),
    Entrant("stokehold-cache", "Stokehold, cache (warm)", "stoke",
            arguments=["--data", "{folder}", "--cache", "{cache}", *FULL]),
    Entrant("stokehold-byte-masks", "Stokehold, folder, masks as bytes (its default)", "stoke",
            arguments=["--data", "{folder}", *FULL, "--mask-dtype", "u8"]),
    Entrant("stokehold-python", "stokehold.Loader, from Python", "loader", "torch", "stokehold", [], {"PYTHONPATH": "{package}"}),
    Entrant("stokehold-python-lean", "stokehold.Loader, from Python, NumPy, one batch ahead", "loader", "torch", "stokehold", ["--lean"],
            {"PYTHONPATH": "{package}"}),
    Entrant("albumentations", "Albumentations, as people write it", "peer", "torch", "albumentations"),
    Entrant("albumentations-expert", "Albumentations, expert form: one affine, late normalise", "peer", "torch",
            "albumentations", ["--expert"], KEEP_MEMORY),
    Entrant("spdl", "SPDL threads, hand-fused OpenCV chain", "peer", "spdl", "spdl", [], KEEP_MEMORY),
    Entrant("ffcv", "FFCV (JPEG mode) + Albumentations, one affine", "peer", "ffcv", "ffcv", [], KEEP_MEMORY),
    Entrant("webdataset", "webdataset + Albumentations", "peer", "torch", "webdataset"),
    Entrant("torchvision", "torchvision v2, one affine", "peer", "torch", "torchvision", [], KEEP_MEMORY),
    Entrant("pil", "PIL / NumPy Dataset", "peer", "torch", "pil"),
    Entrant("dali", "DALI, CPU backend", "peer", "dali", "dali"),
    Entrant("kornia", "Kornia on the batch, CPU", "peer", "torch", "kornia", [], KEEP_MEMORY),
    Entrant("stokehold-bytes", "Stokehold, cache (warm), bytes out, no augmentation", "stoke",
            arguments=["--data", "{folder}", "--cache", "{cache}", *BYTES], group="bytes"),
    Entrant("ffcv-raw", "FFCV raw mode, bytes out, no augmentation", "peer", "ffcv", "ffcv", ["--raw"], {}, "bytes"),
]
