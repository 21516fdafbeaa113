#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every file of the real data, read by Stokehold and by Pillow: the same pixels, or a reason.

usage: pillow_decode.py DECODE_TOOL DATA_FOLDER     (STOKE_TEST_DATA, if set, is the folder)

What "the same" means, purpose by purpose:
  image  Pillow's convert('RGB'). Grey of 16 bits has no such conversion in Pillow (it clips): the high byte is expected.
  mask   the stored integers: palette index; 1, 2 and 4 bits undone from Pillow's stretching; 16 bits whole (of
         16-bit colour Pillow keeps the high byte only, so only that is compared).
  TIFF   Pillow always turns TIFF upright, so the comparison is with orientation 'apply'.
  EXIF   files with an EXIF orientation are compared a second time, with ImageOps.exif_transpose.
Prints TAP, and a table at the end.
"""
import collections
import os
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    from PIL import Image, ImageOps
except ImportError as e:
    print(f"1..0 # SKIP {e.name} is not installed")
    sys.exit(0)

# Files where the two may differ, with the reason. Anything else that differs is a failure.
KNOWN = {
    "16_bit_binary_pgm.tiff": "32-bit samples have no place in u8 or u16 pixels",
    "chunk_no_fctl.png": "the animation is broken, the picture that we read is not",
    "hopper.Lab.tif": "L*a*b* is refused",
    "lab-green.tif": "L*a*b* is refused",
    "hopper_bad_exif.jpg": "damaged scan data: Pillow shows stripes",
    "truncated_exif_dpi.jpg": "Pillow stumbles over EXIF data that the pixels do not need",
    "xcsn0g01.png": "the pixels' checksum is wrong: Pillow does not look at it",
    # of these only the mask differs: we undo premultiplication in 16 bits, Pillow in the high bytes
    "tiff_16bit_RGBa.tiff": "premultiplied 16-bit colour",
    "tiff_tiled_planar_16bit_RGBa.tiff": "premultiplied 16-bit colour",
}


def stored_kind(path, im):
    """(bits per sample, is it grey with alpha) in the file, which Pillow's mode no longer shows."""
    if im.format == "PNG":
        with open(path, "rb") as f:
            head = f.read(26)
        return head[24], head[25] == 4
    if im.format == "TIFF":
        return im.tag_v2.get(258, (1,))[0], False
    return 8, False


def pillow_image(im):
    if im.mode.startswith("I"):
        grey = np.asarray(im).astype(np.int64)
        return np.repeat((grey >> 8).astype(np.uint8)[..., None], 3, axis=2)
    return np.asarray(im.convert("RGB"))


def pillow_mask(im, bits, grey_alpha):
    if im.mode in ("P", "PA"):
        return np.asarray(im.getchannel(0))[..., None]
    if im.mode == "1":
        return np.asarray(im).astype(np.uint8)[..., None]
    if im.mode.startswith("I"):
        return np.asarray(im).astype(np.uint16)[..., None]
    if im.mode in ("L", "LA") or grey_alpha:
        grey = np.asarray(im.getchannel(0))
        return (grey // (255 // (2 ** bits - 1)) if bits < 8 else grey)[..., None]
    return np.asarray(im.convert("RGB"))


def by_pillow(path, purpose, upright):
    """(pixels, None) or (None, reason)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as im:
                kind = stored_kind(path, im)
                im.load()
                if upright:
                    im = ImageOps.exif_transpose(im)
                return (pillow_mask(im, *kind) if purpose == "mask" else pillow_image(im)), None
    except Exception as e:  # Pillow raises nearly everything on damaged files
        return None, f"{type(e).__name__}: {e}".split("\n")[0]


def by_stoke(tool, path, purpose, upright, out):
    done = subprocess.run([tool, purpose, "apply" if upright else "ignore", path, out],
                          capture_output=True, text=True, timeout=60)
    if done.returncode == 1:
        return None, done.stderr.strip()
    if done.returncode != 0:
        return None, f"CRASH: exit {done.returncode} {done.stderr.strip()}"
    if done.stderr:
        return None, f"CRASH: printed {done.stderr!r}"
    return np.load(out), None


def compare(ours, theirs):
    """None, or what differs."""
    if ours.dtype == np.uint16 and theirs.dtype == np.uint8:
        ours = (ours >> 8).astype(np.uint8)
    if ours.shape != theirs.shape:
        return f"shape {ours.shape} and {theirs.shape}"
    if np.array_equal(ours, theirs):
        return None
    apart = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
    return f"{np.count_nonzero(apart)} of {apart.size} samples differ, by up to {apart.max()}"


def judge(name, ours, our_reason, theirs, their_reason):
    """(good, row of the table, text)"""
    known = KNOWN.get(os.path.basename(name))
    if our_reason and our_reason.startswith("CRASH"):
        return False, "crash", our_reason
    if ours is None and theirs is None:
        return True, "both refuse", f"{our_reason} | Pillow: {their_reason}"
    if ours is None:
        return known is not None, "we refuse, Pillow reads", f"{our_reason}" + (f" (known: {known})" if known else "")
    if theirs is None:
        return known is not None, "we read, Pillow refuses", f"{their_reason}" + (f" (known: {known})" if known else "")
    different = compare(ours, theirs)
    if different is None:
        return True, "equal", ""
    return known is not None, "different", different + (f" (known: {known})" if known else "")


def exif_orientation(path):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as im:
                if im.format == "TIFF" or "exif" not in im.info:
                    return 1
                exif = Image.Exif()
                exif.load(im.info["exif"])
                return exif.get(0x112, 1)
    except Exception:
        return 1


def files_of(data):
    for folder, step in (("formats", 1), ("pngsuite", 1), ("membrane/image", 1), ("membrane/label", 1),
                         ("camvid/train", 12), ("camvid/trainannot", 12), ("camvid/val", 12), ("camvid/valannot", 12)):
        top = os.path.join(data, folder)
        names = sorted(n for n in (os.listdir(top) if os.path.isdir(top) else [])
                       if n.lower().endswith((".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")))
        for n in names[::step]:
            yield f"{folder}/{n}"


def main():
    tool, data = sys.argv[1], os.environ.get("STOKE_TEST_DATA", sys.argv[2])
    names = list(files_of(data))
    if not names:
        print(f"1..0 # SKIP no data in {data}")
        return
    table = collections.Counter()
    count = failures = 0
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.npy")
        for name in names:
            path = os.path.join(data, name)
            is_tiff = name.lower().endswith((".tif", ".tiff"))
            cases = [("image", is_tiff), ("mask", is_tiff)]
            if exif_orientation(path) != 1:
                cases.append(("image", True))
            for purpose, upright in cases:
                theirs, their_reason = by_pillow(path, purpose, upright and not is_tiff)
                ours, our_reason = by_stoke(tool, path, purpose, upright, out)
                good, row, text = judge(name, ours, our_reason, theirs, their_reason)
                count += 1
                failures += not good
                table[purpose, row] += 1
                print(f"{'ok' if good else 'not ok'} {count} {name} {purpose}{' upright' if upright else ''}"
                      f" - {row}{': ' + text if text else ''}".replace("#", "\\#"))
    print(f"1..{count}")
    for (purpose, row), n in sorted(table.items()):
        print(f"# {purpose:6} {row:26} {n:5}")
    print(f"# {len(names)} files, {count} comparisons, {failures} failures; Pillow {Image.__version__}")
    sys.exit(1 if failures else 0)


main()
