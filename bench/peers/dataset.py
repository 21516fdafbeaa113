# SPDX-License-Identifier: Apache-2.0
"""The standard data: 256 pairs of 512x512, JPEG of quality 92 with halved colour planes and 8-bit PNG masks, and the same files
in tar shards, in the names webdataset expects."""
import glob
import os
import subprocess
import tarfile

import runner

COUNT = 256
SIZE = 512
SHARDS = 8
QUALITY = 92
# Folders of images and masks that sources are known to have.
LAYOUTS = [("images", "masks"), ("image", "label"), ("train", "trainannot")]


def source_pairs(source):
    for image_folder, mask_folder in LAYOUTS:
        found = sorted(glob.glob(os.path.join(source, image_folder, "*.*")))
        pairs = []
        for image in found:
            mask = os.path.join(source, mask_folder, os.path.splitext(os.path.basename(image))[0] + ".png")
            if os.path.exists(mask):
                pairs.append((image, mask))
        if pairs:
            return pairs
    folders = ", ".join("/ and ".join(layout) + "/" for layout in LAYOUTS)
    raise SystemExit(f"data.py: no pairs in {source}: expected one of {folders}, masks as PNG")


def cover(picture, method):
    """Scaled to fill the square, the middle cut out."""
    width, height = picture.size
    scale = max(SIZE / width, SIZE / height)
    picture = picture.resize((max(SIZE, round(width * scale)), max(SIZE, round(height * scale))), method)
    left, top = (picture.width - SIZE) // 2, (picture.height - SIZE) // 2
    return picture.crop((left, top, left + SIZE, top + SIZE))


def from_pictures(source, folder):
    try:
        from PIL import Image
    except ImportError:
        raise SystemExit("data.py: --source needs Pillow; Debian's /usr/bin/python3 with python3-pil has it") from None
    pairs = source_pairs(source)
    for index in range(COUNT):
        image, mask = pairs[index % len(pairs)]
        with Image.open(image) as picture:
            cover(picture.convert("RGB"), Image.LANCZOS).save(os.path.join(folder, "images", f"{index:06}.jpg"),
                                                              quality=QUALITY, subsampling="4:2:0")
        with Image.open(mask) as labels:
            cover(labels, Image.NEAREST).save(os.path.join(folder, "masks", f"{index:06}.png"))


def from_synth(stoke, folder):
    subprocess.run([stoke, "synth", folder, "--count", str(COUNT), "--size", str(SIZE), "--quality", str(QUALITY),
                    "--quiet"], check=True)


def pack(folder):
    """By Python's tarfile, not by `stoke pack`: nobody's own writer is used for what both read."""
    images = sorted(glob.glob(os.path.join(folder, "images", "*.jpg")))
    for shard in range(SHARDS):
        with tarfile.open(os.path.join(folder, "shards", f"set-{shard:03}.tar"), "w") as archive:
            for image in images[shard::SHARDS]:
                name = os.path.basename(image)[:-4]
                archive.add(image, name + ".jpg")
                archive.add(os.path.join(folder, "masks", name + ".png"), name + ".png")


def prepare(folder, source, stoke):
    """Makes what is not there yet; `made` is written last, so a broken run is begun again."""
    origin = f"pictures of {os.path.basename(os.path.normpath(source))}" if source else "stoke synth"
    made = os.path.join(folder, "made")
    if os.path.exists(made):
        with open(made, encoding="utf-8") as text:
            if text.read() == origin:
                return origin
        raise SystemExit(f"data.py: {folder} holds another set; give another --work or remove it")
    if source:
        runner.claim(folder)
        for part in ("images", "masks"):
            os.makedirs(os.path.join(folder, part), exist_ok=True)
        from_pictures(source, folder)
    else:
        from_synth(stoke, folder)  # which refuses a folder that is not its own
    os.makedirs(os.path.join(folder, "shards"), exist_ok=True)
    pack(folder)
    with open(made, "w", encoding="utf-8") as text:
        text.write(origin)
    return origin
