# SPDX-License-Identifier: Apache-2.0
"""Live parity of `stoke predict` with transformers: `predict_live.py STOKE`.

The same folder of weights in SegformerForSemanticSegmentation, in float64, then what people write around it in Python:
interpolate to the original size and argmax (Hugging Face's own post_process_semantic_segmentation where it can be had),
a loop over windows that adds logits up, the mirror image. Pixels of resized pictures are those of `stoke dump`, which
resize_live.py holds to torchvision. A pixel counts as different only where the classes are further apart than rounding.
Skips with a word when torch or transformers is not installed.
"""
import os
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np

import parity

SIZE = (64, 96)  # what the network sees: height, width
CLOSE = 1e-3     # logits are about 1; fp32 against float64 differs by 1e-5
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def write_png(path, pixels):
    """RGB u8, no filter."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + line.tobytes() for line in pixels)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def read_png(path):
    """Indices of a palette file whose lines are filtered by Up or not at all, as ours are."""
    data, at, packed = open(path, "rb").read(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colors = struct.unpack(">IIBB", body[:10])
            assert (depth, colors) == (8, 3), "not a palette file of 8 bits"
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, width + 1)
    out, above = np.zeros((height, width), np.uint8), np.zeros(width, np.uint8)
    for y, row in enumerate(rows):
        assert row[0] in (0, 2), f"filter {row[0]}"
        above = out[y] = row[1:] + above if row[0] == 2 else row[1:]
    return out


def picture(height, width, seed):
    y, x = np.mgrid[:height, :width]
    noise = parity.make_input(width, height, 3, 1, 2 * seed).astype(float)
    waves = np.stack([np.sin(x / (5 + c)) * np.cos(y / (4 + seed) + c) for c in range(3)], -1)
    return np.clip(128 + 80 * waves + 0.3 * (noise - 128), 0, 255).astype(np.uint8)


def make_network(torch, transformers, folder, classes):
    """Values in every tensor, so large that masks have many classes."""
    torch.manual_seed(classes)
    config = transformers.SegformerConfig(num_labels=classes, hidden_sizes=[32, 64, 160, 256], depths=[2, 2, 2, 2],
                                          decoder_hidden_size=256)
    model = transformers.SegformerForSemanticSegmentation(config)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.dim() > 1:
                tensor.mul_(20 if tensor.dim() == 4 and tensor.shape[1] == 1 else 2.5)
            elif name.endswith("bias"):
                tensor.add_(torch.randn_like(tensor) * 0.1)
        if classes == 1:
            # Or the one logit may have the same sign everywhere, and any mask of one value would do.
            image = torch.from_numpy(normalized(picture(*SIZE, 0))).float()[None]
            model.decode_head.classifier.bias -= model.eval()(pixel_values=image).logits.median()
    model.save_pretrained(folder)
    return model.double().eval()


def normalized(pixels):
    """CHW, float64."""
    return ((pixels / 255 - MEAN) / STD).transpose(2, 0, 1)


class Reference:
    def __init__(self, torch, model):
        self.torch, self.model = torch, model
        self.known = {}  # most windows are wanted twice, alone and beside their mirror image

    def logits(self, image):
        """[classes, height / 4, width / 4] of a normalised CHW picture."""
        key = image.tobytes()
        if key not in self.known:
            with self.torch.no_grad():
                self.known[key] = self.model(pixel_values=self.torch.from_numpy(image)[None]).logits[0]
        return self.known[key]

    def both(self, image):
        """The log of the mean of the probabilities of the picture and its mirror image."""
        own, other = self.logits(image), self.logits(image[:, :, ::-1].copy()).flip(-1)
        if len(own) == 1:
            mean = (own.sigmoid() + other.sigmoid()) / 2
            return mean.log() - (1 - mean).log()
        return ((own.softmax(0) + other.softmax(0)) / 2).log()

    def upsample(self, logits, size):
        return self.torch.nn.functional.interpolate(logits[None], size=size, mode="bilinear", align_corners=False)[0]

    def slide(self, pixels, overlap, view):
        height, width = (max(side + -side % 4, window) for side, window in zip(pixels.shape[:2], SIZE))
        padded = np.pad(pixels, ((0, height - pixels.shape[0]), (0, width - pixels.shape[1]), (0, 0)), "reflect")
        image = normalized(padded)
        sums = count = 0
        starts = []
        for side, window in zip((height, width), SIZE):
            step = max(4, int(window * (1 - overlap)) // 4 * 4)
            starts.append(sorted({min(at, side - window) for at in range(0, side - window + step, step)}))
        for y in starts[0]:
            for x in starts[1]:
                logits = view(image[:, y:y + SIZE[0], x:x + SIZE[1]].copy())
                if not count:
                    sums = self.torch.zeros(len(logits), height // 4, width // 4, dtype=logits.dtype)
                    seen = self.torch.zeros(height // 4, width // 4, dtype=logits.dtype)
                sums[:, y // 4:(y + SIZE[0]) // 4, x // 4:(x + SIZE[1]) // 4] += logits
                seen[y // 4:(y + SIZE[0]) // 4, x // 4:(x + SIZE[1]) // 4] += 1
                count += 1
        full = self.upsample(sums / seen, (height, width))
        return full[:, :pixels.shape[0], :pixels.shape[1]], count


def compare(tap, what, mask, logits):
    """mask: what stoke wrote. logits: [classes, height, width]."""
    logits = logits.numpy()
    if len(logits) == 1:
        logits = np.concatenate([np.zeros_like(logits), logits])
    if mask.shape != logits.shape[1:]:
        tap.ok(False, f"{what}: the mask is {mask.shape}, not {logits.shape[1:]}")
        return
    best = logits.argmax(0)
    equal = (mask == best).mean()
    behind = logits.max(0) - np.take_along_axis(logits, mask[None].astype(int), 0)[0]
    kinds = len(np.unique(mask))  # a small picture may have one alone
    tap.ok(behind.max() < CLOSE and equal > 0.999 and (kinds > 1 or mask.size < 5000),
           f"{what}: {equal:.4%} of {mask.size} pixels equal, the others within {behind.max():.1e}, {kinds} classes")


def stoke(exe, *arguments):
    done = subprocess.run([exe, *map(str, arguments), "--quiet"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)


def dumped(exe, images, out):
    """What the loader makes of each picture for validation, float64 CHW, in the order of the names."""
    stoke(exe, "dump", "--images", images, "--size", f"{SIZE[0]}x{SIZE[1]}", "--batches", 0, "--batch", 1, "--normalize",
          "imagenet", "--order", "sequential", "--out", out)
    return [np.load(f"{out}/{name}")[0].astype(np.float64) for name in sorted(os.listdir(out)) if name.startswith("images_")]


def hugging_face(transformers, torch, logits, size):
    """Their own post-processing; None where the image processor cannot be loaded (it wants more packages)."""
    try:
        processor = transformers.SegformerImageProcessor()
    except (ImportError, AttributeError):
        return None
    outputs = transformers.modeling_outputs.SemanticSegmenterOutput(logits=logits[None])
    return processor.post_process_semantic_segmentation(outputs, target_sizes=[size])[0].numpy()


def check(tap, exe, torch, transformers, work, classes):
    model = make_network(torch, transformers, f"{work}/net", classes)
    reference = Reference(torch, model)
    sizes = [(64, 96), (33, 47), (150, 97), (110, 181)]
    pixels = [picture(*size, seed) for seed, size in enumerate(sizes)]
    os.makedirs(f"{work}/images")
    for i, image in enumerate(pixels):
        write_png(f"{work}/images/{i}.png", image)
    size = ["--size", f"{SIZE[0]}x{SIZE[1]}", "--precision", "fp32"]
    fitted = dumped(exe, f"{work}/images", f"{work}/dump")

    def masks(*options):
        stoke(exe, "predict", f"{work}/net", f"{work}/images", "--out", f"{work}/masks", "--force", *size, *options)
        return [read_png(f"{work}/masks/{i}.png") for i in range(len(sizes))]

    named = f"{classes} class{'es' if classes > 1 else ''}"
    for flip in (False, True):
        view = reference.both if flip else reference.logits
        flags, words = (["--flip"], " with mirror image") if flip else ([], "")
        for i, mask in enumerate(masks("--mode", "resize", *flags)):
            compare(tap, f"{named}, {sizes[i]} resized{words}", mask, reference.upsample(view(fitted[i]), sizes[i]))
            theirs = hugging_face(transformers, torch, view(fitted[i]), sizes[i]) if classes > 1 else None
            if theirs is not None:
                equal = (mask == theirs).mean()
                tap.ok(equal > 0.999, f"... and as post_process_semantic_segmentation has it: {equal:.4%}")
        for overlap in (0.5,) if flip else (0.5, 0.7):
            for i, mask in enumerate(masks("--mode", "slide", "--overlap", overlap, *flags)):
                logits, count = reference.slide(pixels[i], overlap, view)
                compare(tap, f"{named}, {sizes[i]} in {count} windows, overlap {overlap}{words}", mask, logits)


def main():
    tap = parity.Tap()
    missing = parity.need("torch", "transformers")
    if missing:
        tap.skip("masks against transformers", f"{missing} is not installed")
        tap.done()
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)  # maps are small, and threads that spin are slow next to other work
    for classes in (19, 1):
        with tempfile.TemporaryDirectory() as work:
            check(tap, sys.argv[1], torch, transformers, work, classes)
    tap.done()


main()
