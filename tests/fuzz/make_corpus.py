#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/decode/: tiny pictures of every kind the decoder reads; corpus/tar/: archives of every kind the
scanner reads; corpus/tar_index/: index files; corpus/safetensors/ and corpus/json_read/: files of weights, and JSON;
corpus/checkpoint/: the words of a run's state; corpus/opencl_cache/: compiled programs. And of each some that are
wrong on purpose.

Needs Pillow and numpy; run it only to change the corpus, the files are in the repository.
"""
import io
import json
import os
import struct
import sys
import tarfile
import zlib

import numpy as np
from PIL import Image, TiffImagePlugin

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def samples(height, width, channels, dtype=np.uint8):
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    return ((x * 13 + y * 29 + c * 71 + (x * y) % 17) * (257 if dtype == np.uint16 else 1)).astype(dtype)


def picture(mode, width=17, height=13):
    channels = {"1": 1, "L": 1, "P": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    data = samples(height, width, channels)
    if mode in ("1", "L", "P"):
        im = Image.fromarray(data[..., 0], "L")
        return im.convert(mode) if mode != "P" else im.quantize(16)
    return Image.fromarray(data, mode)


def saved(im, kind, **options):
    f = io.BytesIO()
    im.save(f, kind, **options)
    return f.getvalue()


def exif(orientation):
    e = Image.Exif()
    e[0x112] = orientation
    return e.tobytes()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, bits, colour_type, rows, interlace=0, before=b"", idat=None):
    head = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, interlace)
    idat = zlib.compress(rows) if idat is None else idat
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before + chunk(b"IDAT", idat) + chunk(b"IEND", b"")


def png_files():
    for mode in ("1", "L", "P", "LA", "RGB", "RGBA"):
        yield f"png-{mode.lower()}", saved(picture(mode), "PNG")
    grey16 = samples(5, 6, 1, np.uint16)
    yield "png-grey16", png(6, 5, 16, 0, b"".join(b"\0" + row.astype(">u2").tobytes() for row in grey16))
    filters = b"".join(bytes([f]) + samples(1, 9, 3)[0].tobytes() for f in (0, 1, 2, 3, 4, 4, 3))
    yield "png-all-filters", png(9, 7, 8, 2, filters)
    yield "png-two-idat", png(9, 7, 8, 2, b"", idat=zlib.compress(filters)[:20]).replace(
        chunk(b"IEND", b""), chunk(b"IDAT", zlib.compress(filters)[20:]) + chunk(b"IEND", b""))
    # Adam7 of 3x3: passes 1, 4 (one pixel), 5 (two), 6 (two rows of one), 7 (three); the others are empty
    passes = b"\0\x10" + b"\0\x20" + b"\0\x30\x31" + b"\0\x40" + b"\0\x41" + b"\0\x50\x51\x52"
    yield "png-interlaced", png(3, 3, 8, 0, passes, interlace=1)
    yield "png-2bit-key", png(8, 1, 2, 0, b"\0\x1b\xe4", before=chunk(b"tRNS", b"\0\1"))
    yield "png-palette-alpha", png(4, 1, 2, 3, b"\0\x1b", before=chunk(b"PLTE", bytes(range(12))) + chunk(b"tRNS", b"\x80\0"))
    yield "png-index-too-high", png(4, 1, 8, 3, b"\0\0\1\2\3", before=chunk(b"PLTE", bytes(6)))
    yield "png-exif", png(4, 2, 8, 0, b"\0abcd\0efgh", before=chunk(b"eXIf", exif(6)[6:]))
    yield "png-text-bomb", png(2, 1, 8, 0, b"\0ab", before=chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(1 << 20))))
    yield "png-many-pixels", png(60000, 60000, 8, 2, b"\0")
    good = png(4, 2, 8, 0, b"\0abcd\0efgh")
    yield "png-cut", good[:-20]
    yield "png-wrong-crc", good[:-14] + b"\0\0" + good[-12:]


def jpeg_files():
    for sampling in (0, 1, 2):
        yield f"jpeg-{('444', '422', '420')[sampling]}", saved(picture("RGB", 37, 21), "JPEG", subsampling=sampling)
    yield "jpeg-grey", saved(picture("L"), "JPEG")
    yield "jpeg-cmyk", saved(picture("CMYK"), "JPEG")
    yield "jpeg-progressive", saved(picture("RGB", 37, 21), "JPEG", progressive=True)
    whole = saved(picture("RGB", 37, 21), "JPEG", progressive=True)
    first_scan = whole[:whole.index(b"\xff\xc4", whole.index(b"\xff\xda"))]
    # behind the end: the fuzzer's choices, a region of 7x11 at 19,0
    yield "jpeg-lacks-scans", first_scan + b"\xff\xd9" + bytes([0, 19, 0, 0, 0, 6, 0, 10, 0])
    yield "jpeg-exif", saved(picture("RGB"), "JPEG", exif=exif(7))
    yield "jpeg-cut", saved(picture("RGB"), "JPEG")[:-30]


def webp_files():
    yield "webp-lossy", saved(picture("RGB"), "WEBP")
    yield "webp-lossless", saved(picture("RGB"), "WEBP", lossless=True)
    yield "webp-alpha", saved(picture("RGBA"), "WEBP")
    yield "webp-animated", saved(picture("RGBA", 8, 8), "WEBP", save_all=True, append_images=[picture("RGB", 8, 8)], exif=exif(3))


def tiff_files():
    for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"):
        yield f"tiff-rgb-{compression}", saved(picture("RGB"), "TIFF", compression=compression)
    for compression in ("group3", "group4"):
        yield f"tiff-1-{compression}", saved(picture("1"), "TIFF", compression=compression)
    for mode in ("P", "RGBA", "CMYK"):
        yield f"tiff-{mode.lower()}", saved(picture(mode), "TIFF", compression="tiff_lzw")
    yield "tiff-grey16", saved(Image.fromarray(samples(5, 6, 1, np.uint16)[..., 0]), "TIFF", compression="packbits")
    ifd = TiffImagePlugin.ImageFileDirectory_v2()
    ifd[274] = 8
    yield "tiff-orientation", saved(picture("RGB"), "TIFF", tiffinfo=ifd)
    yield "tiff-float", saved(Image.fromarray(samples(3, 3, 1)[..., 0].astype(np.float32)), "TIFF")


def archive(kind, names, **fields):
    """A small archive; without the padding to 10240 bytes that tarfile adds."""
    f = io.BytesIO()
    with tarfile.open(fileobj=f, mode="w", format=kind) as t:
        for name in names:
            member = tarfile.TarInfo(name)
            data = b"" if name.endswith("/") else name.encode()[:16]
            member.size = len(data)
            for key, value in fields.items():
                setattr(member, key, value)
            t.addfile(member, io.BytesIO(data))
        end = t.offset
    return f.getvalue()[:end] + bytes(1024)


def patched(data, at, field):
    """The header at byte 0 with a field replaced and the sum put right."""
    head = bytearray(data[:512])
    head[at:at + len(field)] = field
    head[148:156] = b" " * 8
    head[148:155] = b"%06o\0" % sum(head)
    return bytes(head) + data[512:]


def tar_files():
    long = "folder/" * 20 + "n" * 90 + ".jpg"
    names = ["./a.jpg", "a.mask.png", "b/c%2Ed.jpg"]
    for name, kind in (("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)):
        yield f"tar-{name}", archive(kind, names)
    yield "tar-gnu-long", archive(tarfile.GNU_FORMAT, [long])
    yield "tar-pax-long", archive(tarfile.PAX_FORMAT, [long])
    yield "tar-pax-global", archive(tarfile.PAX_FORMAT, ["a.jpg"], pax_headers={"comment": "c", "size": "5"})
    yield "tar-link", archive(tarfile.USTAR_FORMAT, ["a.jpg"], type=tarfile.SYMTYPE, linkname="../x", size=0)
    yield "tar-sparse", archive(tarfile.GNU_FORMAT, ["a.jpg"], type=b"S")
    yield "tar-up", archive(tarfile.USTAR_FORMAT, ["../a.jpg", "/b.jpg"])
    good = archive(tarfile.USTAR_FORMAT, ["a.jpg"])
    yield "tar-v7", patched(good, 257, bytes(8))
    yield "tar-base256", patched(good, 124, b"\x80" + bytes(10) + b"\x05")
    yield "tar-negative", patched(good, 124, b"\xff" * 12)
    yield "tar-huge", patched(good, 124, b"77777777777\0")
    yield "tar-cut", good[:700]
    yield "tar-no-end", good[:1024]
    yield "tar-garbage", good + b"more"


def index_files():
    def index(members, size=8192):
        text = b"stoke-tar-idx-1\n" + struct.pack("<QqQ", size, 1, len(members))
        text += b"".join(struct.pack("<QQII", offset, n, len(name), kind) for name, offset, n, kind in members)
        return text + b"".join(name for name, _, _, _ in members) + bytes(8)  # the target puts the sum right
    yield "index-none", index([])
    yield "index-two", index([(b"a.jpg", 512, 100, 0), (b"a.mask.png", 1536, 2000, 0)])
    yield "index-link", index([(b"a.jpg", 512, 0, 1), (b"b/c.png", 1024, 0, 2)])
    yield "index-outside", index([(b"a.jpg", 512, 1 << 40, 0)])
    yield "index-up", index([(b"../a.jpg", 512, 1, 0)])
    yield "index-cut", index([(b"a.jpg", 512, 100, 0)])[:70]


def opencl_cache_files():
    def program(binary, size=None, magic=b"stoke-opencl-1\n\0"):
        size = len(binary) if size is None else size
        return magic + bytes(range(16)) + struct.pack("<Q", size) + binary + bytes(16)  # the target puts the digest right
    yield "program-good", program(b"\x7fELF and so on")
    yield "program-empty", program(b"")
    yield "program-longer", program(b"\x7fELF", 5)
    yield "program-shorter", program(b"\x7fELF", 3)
    yield "program-wraps", program(b"\x7fELF", (1 << 64) - 1)
    yield "program-cut", program(b"\x7fELF and so on")[:58]
    yield "program-other-version", program(b"\x7fELF", magic=b"stoke-opencl-2\n\0")


def weights(entries, data=b"", pad=0):
    """A safetensors file: entries as a dict, or the header as text."""
    text = (entries if isinstance(entries, str) else json.dumps(entries, separators=(",", ":"))).encode() + b" " * pad
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_files():
    norm, deep = "segformer.encoder.layer_norm.0.weight", "segformer.stages.2.blocks.39.attention.q_proj.weight"
    good = {"__metadata__": {"format": "pt"}, "decode_head.batch_norm.num_batches_tracked": tensor("I64", [], 0, 8),
            norm: tensor("F32", [2], 8, 16), deep: tensor("BF16", [2, 3], 16, 28), "none": tensor("F16", [0, 4], 28, 28)}
    yield "good", weights(good, bytes(28), 3)
    yield "empty", weights({})
    yield "cut", weights(good, bytes(27))
    yield "trailing", weights(good, bytes(29))
    yield "gap", weights({"a": tensor("U8", [1], 0, 1), "b": tensor("U8", [1], 2, 3)}, bytes(3))
    yield "overlap", weights({"a": tensor("U8", [2], 0, 2), "b": tensor("U8", [2], 1, 3)}, bytes(3))
    yield "same-place", weights({"a": tensor("U8", [1], 0, 1), "b": tensor("U8", [1], 0, 1)}, bytes(1))
    yield "backwards", weights({"a": tensor("U8", [1], 1, 0)}, bytes(1))
    yield "wraps-shape", weights({"a": tensor("F32", [1 << 32, 1 << 32], 0, 0)})
    yield "wraps-bytes", weights({"a": tensor("F32", [1 << 62], 0, 0)})
    yield "wraps-offset", weights({"a": tensor("U8", [1], (1 << 64) - 1, 1 << 64)}, bytes(1))
    yield "far-away", weights({"a": tensor("U8", [1], (1 << 64) - 2, (1 << 64) - 1)}, bytes(1))
    yield "zero-times-much", weights({"a": tensor("F64", [0, 1 << 63, 1 << 63], 0, 0)})
    yield "many-dimensions", weights({"a": tensor("U8", [1] * 9, 0, 1)}, bytes(1))
    yield "twice", weights('{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\\u0061":' +
                           '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}')
    yield "metadata-number", weights({"__metadata__": {"format": 1}})
    yield "blank-first", weights(" {}")
    yield "no-object", weights("[]")
    yield "zero-in-name", weights('{"a\\u0000b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}')
    yield "length-huge", b"\xff" * 8 + b"{}"
    yield "length-limit", struct.pack("<Q", 100_000_001) + b"{}"
    yield "length-cut", struct.pack("<Q", 3) + b"{}"
    yield "short", b"\0" * 7
    yield "deep", weights('{"a":' + "[" * 100 + "]" * 100 + "}")
    yield "long-name", weights({"encoder." + "x" * 300: tensor("U8", [1], 0, 1)}, bytes(1))
    yield from vgg_files()


def vgg_files():
    """Convolutions by number and channels; U8 does for shapes."""
    def vgg(*layers, prefix="features.", **others):
        entries, at = {}, 0
        for number, outputs, inputs in layers:
            entries[f"{prefix}{number}.weight"] = tensor("U8", [outputs, inputs, 3, 3], at, at + 9 * outputs * inputs)
            at += 9 * outputs * inputs
        return weights(entries | others, bytes(at))
    chain = [(0, 2, 3), (2, 2, 2), (5, 1, 2), (7, 1, 1), (10, 1, 1), (12, 1, 1), (17, 1, 1), (24, 1, 1)]
    yield "vgg", vgg(*chain[:6])
    yield "vgg-of-features", vgg(*chain[:4], prefix="")
    yield "vgg-gap", vgg(*chain)
    yield "vgg-first-missing", vgg(*chain[1:6])
    yield "vgg-other-channels", vgg((0, 2, 3), (2, 2, 1))
    yield "vgg-batch-norm", vgg(*chain[:2], **{"features.1.running_mean": tensor("U8", [0], 54 + 36, 54 + 36)})
    yield "vgg-huge", weights({"features.0.weight": tensor("U8", [1 << 32, 0, 3, 3], 0, 0)})


def json_files():
    for name, text in (
            ("config", b'{"depths": [2, 2, 2, 2], "hidden_act": "gelu", "id2label": {"0": "a", "1": "b"}, "eps": 1e-06}'),
            ("index", b'{"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}'),
            ("words", b"[true, false, null, [], {}]"), ("numbers", b"[0, -0, 1.5e+300, 1E-7, 18446744073709551616]"),
            ("escapes", rb'"\"\\\/\b\f\n\r\t\u00e9\u20ac\ud83d\ude00"'), ("utf8", "[\"é€😀\"]".encode()),
            ("surrogate-half", rb'"\ud83d"'), ("surrogate-twisted", rb'"\ude00\ud83d"'), ("zero", rb'"\u0000"'),
            ("zero-byte", b'"a\0b"'), ("utf8-overlong", b'"\xc0\x80"'), ("utf8-cut", b'"\xe2\x82"'),
            ("utf8-surrogate", b'"\xed\xa0\x80"'), ("twice", rb'{"a": 1, "\u0061": 2}'), ("trailing-comma", b"[1,]"),
            ("deep", b"[" * 64 + b"]" * 64), ("too-deep", b'{"a":' * 65 + b"1" + b"}" * 65), ("open", b"[" * 2000),
            ("number-cut", b"-"), ("leading-zero", b"01"), ("two", b"1 2"), ("bom", b"\xef\xbb\xbf{}"), ("blank", b" \n"),
            ("many", b"[" + b"1," * 2000 + b"1]")):
        yield name, text


def checkpoint_files():
    good = {"version": 1, "step": 7, "epoch": 1, "batch": 3, "loader": '{"version":1,"seed":0,"epoch":1,"position":6}',
            "epoch_loss": 0.30000000000000004, "epoch_steps": 3, "images": 14, "best": 0.5, "best_step": 5}
    good |= {f"best_{name}": 1 / 3 for name in ("miou", "f1_macro", "f1_micro", "precision", "recall", "pixel_accuracy")}
    good |= {"best_classes_counted": 12, "best_pixels": 1 << 40, "evaluations": 2, "without_gain": 1, "evaluated": 6,
             "skipped_in_a_row": 0, "seconds": 12.345678901234567, "data_seconds": 1e-300, "eval_seconds": -0.0,
             "save_seconds": 5e-324, "cpu": "avx2", "net_step": 7, "net_draws": 14, "net_batches_tracked": 14,
             "net_loss_scale": 65536, "net_good_steps": 7, "data_xxh3": "0123456789abcdef", "identity": "lr=0.001\nseed=é"}

    def text(**changed):
        return json.dumps(good | changed, ensure_ascii=False).encode()
    yield "good", text()
    yield "not-finite", text(best=None, epoch_loss="infinity", seconds="-infinity")
    yield "largest", text(step=(1 << 64) - 1, net_step=(1 << 64) - 1, best_classes_counted=(1 << 32) - 1)
    yield "too-large", text(images=1 << 64)
    yield "too-large-32", text(best_classes_counted=1 << 32)
    yield "negative", text(step=-1)
    yield "fraction", text(step=7.5)
    yield "overflow", text().replace(b"12.345678901234567", b"1e999")
    yield "loader-longest", text(loader="x" * 511)
    yield "loader-too-long", text(loader="x" * 512)
    yield "cpu-too-long", text(cpu="x" * 16)
    yield "control", text(cpu="\x1b[2J")
    yield "contradiction", text(net_step=8)
    yield "version", text(version=2)
    yield "extra", text(more=1)
    yield "missing", json.dumps({k: v for k, v in good.items() if k != "batch"}).encode()
    yield "wrong-kind", text(identity=[1, 2])
    yield "escapes", text(identity='"\\\n\t/\x7f😀')
    yield "array", b"[1, 2]"
    yield "cut", text()[:300]


def main():
    for folder, makers in (("decode", (png_files, jpeg_files, webp_files, tiff_files)), ("tar", (tar_files,)),
                           ("tar_index", (index_files,)), ("safetensors", (safetensors_files,)),
                           ("json_read", (json_files,)), ("checkpoint", (checkpoint_files,)),
                           ("opencl_cache", (opencl_cache_files,))):
        os.makedirs(os.path.join(OUT, folder), exist_ok=True)
        for name, data in (item for make in makers for item in make()):
            if len(data) > 6144:
                sys.exit(f"{name}: {len(data)} bytes, more than a seed should have")
            with open(os.path.join(OUT, folder, name), "wb") as f:
                f.write(data)


main()
