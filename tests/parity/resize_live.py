# SPDX-License-Identifier: Apache-2.0
"""Live parity of the pixel room with the libraries at hand: torch and torchvision (bit-equal; within one before torch 2) when
they are installed, Pillow (within one) always. `resize_live.py TOOL [--time]`; --time prints a speed table instead."""
import sys

import numpy as np
import PIL
from PIL import Image

import parity

# width, height, out_width, out_height: up, down, one axis unchanged, one pixel, odd, extreme ratios, common sizes.
SIZES = [
    (512, 512, 256, 256), (480, 360, 512, 512), (512, 512, 224, 224), (256, 256, 512, 512), (640, 427, 512, 512),
    (37, 53, 37, 20), (37, 53, 90, 53), (37, 53, 37, 101), (1, 1, 7, 5), (7, 5, 1, 1), (1, 40, 3, 9), (40, 1, 9, 3),
    (2, 2, 3, 3), (3, 3, 2, 2), (5, 3, 64, 64), (1000, 3, 7, 300), (3, 1000, 300, 7), (4000, 2, 3, 2), (2, 4000, 2, 3),
    (255, 257, 256, 256), (257, 255, 256, 256), (101, 97, 33, 31), (33, 31, 101, 97), (719, 479, 512, 384),
    (1920, 1080, 512, 288), (63, 65, 64, 64), (16, 16, 15, 17), (31, 31, 32, 32), (8, 8, 800, 8), (12345, 4, 64, 4),
]


def random_sizes(count, largest, seed):
    rng = np.random.default_rng(seed)
    return [tuple(int(v) for v in rng.integers(1, largest + 1, 4)) for _ in range(count)]


def torch_modules():
    try:
        import torch
        import torchvision
        return torch, torchvision
    except ImportError:
        return None, None


def vision_functions():
    """v2 came with 0.15; what is called here is in both."""
    try:
        from torchvision.transforms.v2 import functional
    except ImportError:
        from torchvision.transforms import functional
    return functional


def resizes_bytes(torch):
    """torch 2 does, with the weights of 15 bits that ours have; 1.13 has "compute_indices_weights_aa" for floats alone."""
    try:
        torch.nn.functional.interpolate(torch.zeros(1, 3, 4, 4, dtype=torch.uint8), size=(2, 2), mode="bilinear", antialias=True)
        return True
    except RuntimeError:
        return False


def planar(torch, image):
    """HWC array to a channels-last NCHW tensor, the way torchvision holds a decoded image."""
    return torch.from_numpy(image.copy()).permute(2, 0, 1)[None]


def check_torch(tap, tool, torch, torchvision, sizes):
    F = vision_functions()
    for channels in (1, 3):
        different = samples = 0
        first = None
        for index, (w, h, ow, oh) in enumerate(sizes):
            image = parity.make_input(w, h, channels, 1, index)
            ours = tool.resize("linear", w, h, ow, oh, channels, 1, index)
            theirs = torch.nn.functional.interpolate(planar(torch, image), size=(oh, ow), mode="bilinear",
                                                     antialias=True)[0].permute(1, 2, 0).numpy()
            wrong = int((ours != theirs).sum())
            if wrong and first is None:
                first = f"{w}x{h} to {ow}x{oh}"
            different += wrong
            samples += ours.size
        tap.ok(different == 0, f"linear u8 x {channels} bit-equal to torch {torch.__version__} interpolate "
               f"({len(sizes)} sizes, {samples} samples, {different} differ{', first ' + first if first else ''})")
    image = parity.make_input(480, 360, 3, 1, 2)
    theirs = F.resize(planar(torch, image)[0], [512, 512], antialias=True).permute(1, 2, 0).numpy()
    tap.ok(np.array_equal(tool.resize("linear", 480, 360, 512, 512, 3, 1, 2), theirs),
           f"linear u8 bit-equal to torchvision {torchvision.__version__} resize")


def check_writer(tap, tool, torch):
    F = vision_functions()
    w, h = 67, 19
    image = parity.make_input(w, h, 3, 1, 4)
    unit = planar(torch, image)[0].to(torch.float32).div(255)
    imagenet = F.normalize(unit, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    for layout, name in ((0, "chw"), (1, "hwc")):
        def ours(dtype, normalize, kind):
            array = np.frombuffer(tool.write(w, h, dtype, layout, normalize, 0, 1, 4), kind).copy()
            shaped = torch.from_numpy(array).reshape((3, h, w) if layout == 0 else (h, w, 3))
            return shaped if layout == 0 else shaped.permute(2, 0, 1)
        tap.ok(torch.equal(ours(1, 0, np.float32), unit), f"f32 {name} unit bit-equal to torch div(255)")
        tap.ok(torch.equal(ours(2, 0, np.int16).view(torch.float16), unit.to(torch.float16)),
               f"f16 {name} unit bit-equal to torch")
        tap.ok(torch.equal(ours(3, 0, np.int16).view(torch.bfloat16), unit.to(torch.bfloat16)),
               f"bf16 {name} unit bit-equal to torch")
        worst = float((ours(1, 1, np.float32) - imagenet).abs().max())
        tap.ok(worst <= 1e-6, f"f32 {name} imagenet within 1e-6 of torchvision normalize (worst {worst:.1e})")


def pillow_resize(image, size, method):
    if image.shape[2] == 1:
        return np.asarray(Image.fromarray(image[:, :, 0]).resize(size, method))[:, :, None]
    return np.asarray(Image.fromarray(image).resize(size, method))


def check_within_one(tap, tool, sizes, name, resize):
    """For peers with other weights: the same filter, but rounded elsewhere."""
    worst = different = samples = 0
    for index, (w, h, ow, oh) in enumerate(sizes):
        image = parity.make_input(w, h, 3, 1, index)
        ours = tool.resize("linear", w, h, ow, oh, 3, 1, index).astype(int)
        theirs = resize(image, (ow, oh)).astype(int)
        delta = np.abs(ours - theirs)
        worst = max(worst, int(delta.max()))
        different += int((delta != 0).sum())
        samples += delta.size
    tap.ok(worst <= 1, f"linear u8 within one of {name} ({len(sizes)} sizes, {samples} samples, "
           f"{different} differ, worst {worst})")


def nearest_index(size, out):
    """Source index by integers, and where it is a tie: (i + 0.5) * size / out is whole there, and a library that adds
    up floating point steps may land just below it."""
    doubled = (2 * np.arange(out, dtype=np.int64) + 1) * size
    return doubled // (2 * out), doubled % (2 * out) == 0


def check_nearest(tap, tool, sizes, name, resize):
    wrong, ties = [], 0
    for index, (w, h, ow, oh) in enumerate(sizes):
        image = parity.make_input(w, h, 1, 1, index & ~1)
        ours, theirs = tool.resize("nearest", w, h, ow, oh, 1, 1, index & ~1), resize(image, (ow, oh))
        columns, tie_columns = nearest_index(w, ow)
        rows, tie_rows = nearest_index(h, oh)
        exact = np.array_equal(ours, image[rows][:, columns])
        if not exact or not np.array_equal(ours[~tie_rows][:, ~tie_columns], theirs[~tie_rows][:, ~tie_columns]):
            wrong.append(f"{w}x{h} to {ow}x{oh}")
        ties += not np.array_equal(ours, theirs)
    tap.ok(not wrong, f"nearest exact by integers, equal to {name} but for ties ({len(sizes)} sizes, {ties} with "
           f"ties that {name} rounds down; wrong: {', '.join(wrong) or 'none'})")


def print_times(tool, torch):
    """Best of many, all three in turn in one run, one thread each; Pillow and torch without conversions."""
    import time

    def best(function, repeats):
        times = []
        for _ in range(repeats):
            start = time.perf_counter_ns()
            function()
            times.append(time.perf_counter_ns() - start)
        return min(times)
    if torch:
        torch.set_num_threads(1)
    print(f"{'job':24} {'stoke us':>9} {'torch us':>9} {'Pillow us':>9}")
    for w, h, ow, oh in ((512, 512, 256, 256), (480, 360, 512, 512), (1920, 1080, 512, 288), (256, 256, 224, 224)):
        image = parity.make_input(w, h, 3, 1, 0)
        pil = Image.fromarray(image)
        tensor = planar(torch, image) if torch else None
        ours, torchs, pillows = [], [], []
        for _ in range(7):
            ours.append(tool.time_ns(w, h, ow, oh, 3, 10))
            if torch:
                torchs.append(best(lambda: torch.nn.functional.interpolate(tensor, size=(oh, ow), mode="bilinear",
                                                                           antialias=True), 10))
            pillows.append(best(lambda: pil.resize((ow, oh), Image.BILINEAR), 10))
        torch_text = f"{min(torchs) / 1000:9.0f}" if torchs else f"{'n/a':>9}"
        print(f"{f'{w}x{h} to {ow}x{oh}':24} {min(ours) / 1000:9.0f} {torch_text} {min(pillows) / 1000:9.0f}")


def main():
    tool = parity.Tool(sys.argv[1])
    torch, torchvision = torch_modules()
    if "--time" in sys.argv:
        print_times(tool, torch if torch and resizes_bytes(torch) else None)
        return
    tap = parity.Tap()
    sizes = SIZES + random_sizes(40, 300, 20240611)
    check_within_one(tap, tool, sizes, f"Pillow {PIL.__version__}",
                     lambda image, size: pillow_resize(image, size, Image.BILINEAR))
    check_nearest(tap, tool, sizes, f"Pillow {PIL.__version__} NEAREST",
                  lambda image, size: pillow_resize(image, size, Image.NEAREST))
    if torch:
        check_nearest(tap, tool, sizes, f"torch {torch.__version__} nearest-exact",
                      lambda image, size: torch.nn.functional.interpolate(
                          planar(torch, image), size=size[::-1], mode="nearest-exact")[0].permute(1, 2, 0).numpy())
        if resizes_bytes(torch):
            check_torch(tap, tool, torch, torchvision, sizes)
        else:
            # By way of floats, rounded once where ours and torch 2 round after each axis.
            check_within_one(tap, tool, sizes, f"torchvision {torchvision.__version__} resize", lambda image, size:
                             vision_functions().resize(planar(torch, image)[0], list(size[::-1]), antialias=True)
                             .permute(1, 2, 0).numpy())
            tap.skip("linear u8 bit-equal to torch", f"torch {torch.__version__} cannot resize bytes with antialiasing")
        check_writer(tap, tool, torch)
    else:
        tap.skip("linear u8 and the writer against torch", "torch or torchvision is not installed")
    tap.ok(tool.close() == 0, "the tool ended well")
    tap.done()


main()
