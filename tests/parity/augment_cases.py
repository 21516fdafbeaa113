# SPDX-License-Identifier: Apache-2.0
"""The augmentation ops beside other libraries' functions for the same thing, given the same numbers (parameter replay).

Our side draws an op whose ranges are pinned, or reads what was drawn off the plan, and carries it out with augment_tool. The
peer's function gets these numbers and the same pixels. Images are compared on the scale 0..1, labels by identity; what is
outside is black and 255 on either side: peers that know only zero get labels raised by one. Where a convention of a
peer differs from ours for good, the case says so and compares where they agree."""
import importlib
import math
from dataclasses import dataclass
from typing import Callable

import numpy as np

import parity

IGNORE = 255
# What a warp may differ by: its weights have 8 bits and it rounds to bytes (src/pix/warp.h). At the border of any picture
# there is a step to black, so the smooth bound holds where all taps are inside.
WARP_NOISE, WARP_SMOOTH = 1.5 / 255, 0.6 / 255
# Single precision on the scale 0..255 rounds by 255 * 2^-24 at most, which is 6e-8 of the scale 0..1.
ULP = 6e-8


# ---- peers ----

class Peers:
    """The packages at hand: attribute is None where one is not installed."""

    def __init__(self):
        self.torch = self._load("torch")
        # v2 came with 0.15; the functions before it are the same for float tensors.
        names = ("torchvision.transforms.v2.functional", "torchvision.transforms.functional") if self.torch else ()
        vision = next(filter(None, map(self._load, names)), None)
        self.vision = vision
        self.modes = importlib.import_module("torchvision.transforms").InterpolationMode if vision else None
        self.kornia = self._load("kornia") if self.torch else None
        self.opencv = self._load("cv2")
        self.pillow = self._load("PIL.Image")

    @staticmethod
    def _load(name):
        try:
            return importlib.import_module(name)
        except ImportError:
            return None

    def has(self, package):
        return {"torchvision": self.vision, "kornia": self.kornia, "OpenCV": self.opencv, "Pillow": self.pillow,
                "NumPy": np}[package] is not None

    def version(self, package):
        module = {"torchvision": "torchvision", "kornia": "kornia", "OpenCV": "cv2", "Pillow": "PIL",
                  "NumPy": "numpy"}[package]
        return f"{package} {importlib.import_module(module).__version__}"

    def vision_call(self, name, older):
        """torchvision's function by its name in v2 or before."""
        return getattr(self.vision, name if hasattr(self.vision, name) else older)

    def planes(self, image):
        """HWC bytes to a 1CHW float tensor in 0..1."""
        return self.torch.from_numpy(image.astype(np.float32) / np.float32(255)).permute(2, 0, 1)[None].contiguous()

    def raised(self, labels):
        """Labels as a 11HW float tensor, one up, so that zero is free to mean outside."""
        return self.torch.from_numpy(labels.astype(np.float32) + 1)[None, None]


def lowered(tensor):
    return (tensor[0, 0].numpy() - 1).astype(np.int64).astype(np.uint8)


# ---- pictures ----

def make_smooth(width, height):
    """Slopes of at most 5 levels per pixel, other phases per channel."""
    x, y, c = np.meshgrid(np.arange(width), np.arange(height), np.arange(3), indexing="xy")
    wave = (5 * x + 3 * y + 70 * c) % 510
    return np.where(wave < 256, wave, 510 - wave).astype(np.uint8)


def make_picture(kind, width, height, seed):
    if kind == "smooth":
        return make_smooth(width, height)
    noise = parity.make_input(width, height, 3, 1, 2 * seed)
    if kind == "gray":
        noise = np.repeat(noise[:, :, :1] // 2 + make_smooth(width, height)[:, :, :1] // 2, 3, axis=2)
    if kind == "flat":
        noise[:] = 128
    return np.ascontiguousarray(noise)


def make_labels(width, height):
    """Small fields of 19 classes, so that a nearest pixel that is off by one shows."""
    x, y = np.meshgrid(np.arange(width), np.arange(height), indexing="xy")
    return ((x // 3 * 7 + y // 2 * 5) % 19).astype(np.uint8)


# ---- plans ----

@dataclass
class Plan:
    """A plan line of augment_tool, taken apart."""
    text: str

    def __post_init__(self):
        words = iter(self.text.split())
        self.touches, self.matrix, self.elastic = [], None, None
        for word in words:
            if word == "touch":
                self.touches.append((next(words), [float(next(words)) for _ in range(11)]))
            elif word == "elastic":
                self.elastic = [float(next(words)), float(next(words)), int(next(words))]  # a key needs its 64 bits
            else:
                count = {"box": 4, "fit": 2, "place": 2, "flip": 2, "warp": 6, "mix": 6}[word]
                setattr(self, "matrix" if word == "warp" else word, [float(next(words)) for _ in range(count)])

    def source_map(self):
        """2 x 3, from an output pixel to the source."""
        if self.matrix:
            return np.array(self.matrix).reshape(2, 3) / 2**32
        return np.array([[1.0, 0, 0], [0, 1, 0]])

    def forward_map(self):
        return np.linalg.inv(np.vstack([self.source_map(), [0, 0, 1]]))[:2]

    def factor(self, kind):
        return next(values[1] for name, values in self.touches if name == kind)


# ---- replays: (peers, image, labels, plan, field) to (image on 0..1 as CHW or None, labels or None) ----

def vision_image(call):
    return lambda peers, image, labels, plan, field: (call(peers, peers.planes(image), plan)[0].numpy(), None)


def vision_pair(call):
    """call(peers, tensor, plan, mode) on image and labels."""
    def replay(peers, image, labels, plan, field):
        return (call(peers, peers.planes(image), plan, peers.modes.BILINEAR)[0].numpy(),
                lowered(call(peers, peers.raised(labels), plan, peers.modes.NEAREST)))
    return replay


def flip_replay(*names):
    def replay(peers, image, labels, plan, field):
        call = peers.vision_call(*names)
        return call(peers.planes(image))[0].numpy(), lowered(call(peers.raised(labels)))
    return replay


def kornia_warp(peers, image, labels, plan, field):
    size = labels.shape
    matrix = peers.torch.from_numpy(plan.forward_map().astype(np.float32))[None]
    warp = peers.kornia.geometry.transform.warp_affine
    return (warp(peers.planes(image), matrix, size, "bilinear", "zeros", align_corners=True)[0].numpy(),
            lowered(warp(peers.raised(labels), matrix, size, "nearest", "zeros", align_corners=True)))


def opencv_warp(peers, image, labels, plan, field):
    cv2, size = peers.opencv, labels.shape[::-1]
    return (cv2.warpAffine(image, plan.forward_map(), size, flags=cv2.INTER_LINEAR).transpose(2, 0, 1) / 255,
            cv2.warpAffine(labels, plan.forward_map(), size, flags=cv2.INTER_NEAREST, borderValue=IGNORE))


def vision_elastic(peers, image, labels, plan, field):
    height, width = labels.shape
    shift = peers.torch.from_numpy((field * np.array([2 / width, 2 / height])).astype(np.float32))[None]
    call = peers.vision_call("elastic", "elastic_transform")
    return (call(peers.planes(image), shift, peers.modes.BILINEAR, None)[0].numpy(),
            lowered(call(peers.raised(labels), shift, peers.modes.NEAREST, None)))


def vision_resized_crop(out):
    def replay(peers, image, labels, plan, field):
        left, top, width, height = (int(value) for value in plan.box)
        whole = peers.torch.from_numpy(image).permute(2, 0, 1)
        crop = peers.vision.resized_crop(whole, top, left, height, width, list(out[::-1]), peers.modes.BILINEAR, True)
        mask = peers.vision.resized_crop(peers.torch.from_numpy(labels)[None], top, left, height, width, list(out[::-1]),
                                         peers.modes.NEAREST_EXACT)
        return crop.numpy() / np.float32(255), mask[0].numpy()
    return replay


def pillow_resized_crop(out):
    def replay(peers, image, labels, plan, field):
        left, top, width, height = (int(value) for value in plan.box)
        box, bilinear, nearest = (left, top, left + width, top + height), 2, 0
        crop = peers.pillow.fromarray(image).crop(box).resize(out, bilinear)
        mask = peers.pillow.fromarray(labels).crop(box).resize(out, nearest)
        return np.asarray(crop).transpose(2, 0, 1) / np.float32(255), np.asarray(mask)
    return replay


def vision_crop(out):
    """A window that may hang over: torchvision pads by nothing but its fill."""
    def replay(peers, image, labels, plan, field):
        place_x, place_y = (int(value) for value in plan.place)
        left, top, width, height = (int(value) for value in plan.box)
        padding = [place_x, place_y, out[0] - place_x - width, out[1] - place_y - height]
        cut = lambda tensor, fill: peers.vision.pad(peers.vision.crop(tensor, top, left, height, width), padding, fill=fill)
        return cut(peers.planes(image), 0)[0].numpy(), lowered(cut(peers.raised(labels), 0))
    return replay


def vision_jitter(peers, planes, plan):
    for name, values in plan.touches:
        if name == "blur":
            planes = peers.vision.gaussian_blur(planes, [int(values[0])] * 2, [values[1]] * 2)
        else:
            planes = getattr(peers.vision, "adjust_" + name)(planes, values[1])
    return planes


def vision_chain(peers, image, labels, plan, field):
    """Geometry by Kornia, which takes the matrix as it is, then torchvision's colours in the order drawn."""
    moved, mask = kornia_warp(peers, image, labels, plan, field)
    if not plan.matrix and plan.flip[0]:
        moved, mask = peers.planes(image)[0].flip(2).numpy(), labels[:, ::-1]
    return vision_jitter(peers, peers.torch.from_numpy(moved.copy())[None], plan)[0].numpy(), mask


def vision_erase(peers, planes, plan):
    box = [int(value) for value in plan.touches[0][1][3:7]]
    return peers.vision.erase(planes, box[1], box[0], box[3], box[2], peers.torch.zeros(3, 1, 1))


def opencv_clahe(peers, image, labels, plan, field):
    tiles, clip = int(plan.touches[0][1][0]), plan.touches[0][1][1]
    done = peers.opencv.createCLAHE(clip, (tiles, tiles)).apply(np.ascontiguousarray(image[:, :, 0]))
    return np.repeat(done[None], 3, axis=0) / np.float32(255), None


def opencv_blur(peers, image, labels, plan, field):
    taps, sigma = int(plan.touches[0][1][0]), plan.touches[0][1][1]
    done = peers.opencv.GaussianBlur(image.astype(np.float32) / 255, (taps, taps), sigma,
                                     borderType=peers.opencv.BORDER_REFLECT_101)
    return done.transpose(2, 0, 1), None


def kornia_blur(peers, planes, plan):
    taps, sigma = int(plan.touches[0][1][0]), plan.touches[0][1][1]
    return peers.kornia.filters.gaussian_blur2d(planes, (taps, taps), (sigma, sigma), "reflect")


# ---- cases ----

@dataclass
class Case:
    op: str
    package: str
    spec: str
    picture: str
    replay: Callable
    limit: float  # largest difference of the image, on the scale 0..1
    mean_limit: float = 1.0
    labels: float | None = None  # share of labels that may differ; None = the op must not touch them
    ties_only: bool = False  # labels may differ only where a coordinate is within 1e-3 px of a tie
    out: tuple | None = None  # width, height; None = as the source
    size: tuple | None = None  # None = every size of the run
    normalize: int = 0
    inside: bool = False  # compare the image only where all taps of the warp lie in the source
    why: str = ""
    pinned: bool = True  # nothing random in spec
    lacks: Callable = lambda peers: ""  # what the version at hand has not, as the reason to skip

    def title(self):
        return f"{self.op} beside {self.package}, {self.picture}"


def geometry_cases():
    cases = []
    rotate = lambda angle: vision_pair(lambda peers, tensor, plan, mode: peers.vision.rotate(tensor, angle, mode, fill=None))
    affine = lambda angle, move, scale, shear: vision_pair(lambda peers, tensor, plan, mode: peers.vision.affine(
        tensor, -angle, [move * tensor.shape[3], 0], scale, shear, mode, fill=None))
    # No factor such as 0.85 = 17/20: whole lines of pixels would lie on ties, which we round up, torch to even, and either
    # only if its last bit says so.
    specs = {
        "rotate": ("rotate(p=1,degrees=13..13)", rotate(13)),
        "scale": ("scale(p=1,factor=0.8537..0.8537)", affine(0, 0, 0.8537, [0, 0])),
        "affine": ("affine(p=1,degrees=-17..-17,scale=1.15..1.15,translate_x=0.125..0.125,translate_y=0..0,shear=7..7,"
                   "shear_y=-4..-4)", affine(-17, 0.125, 1.15, [7, -4])),
    }
    exact = dict(labels=2e-4, ties_only=True)
    for op, (spec, replay) in specs.items():
        for picture, limit in (("noise", WARP_NOISE), ("smooth", WARP_SMOOTH)):
            cases.append(Case(op, "torchvision", spec, picture, replay, limit, **exact, inside=picture == "smooth"))
        cases.append(Case(op, "kornia", spec, "noise", kornia_warp, WARP_NOISE, **exact))
        why = "OpenCV rounds coordinates to 1/32 px and has 5-bit weights"
        cases.append(Case(op, "OpenCV", spec, "noise", opencv_warp, 8 / 255, 1 / 255, labels=5e-3, why=why))
        cases.append(Case(op, "OpenCV", spec, "smooth", opencv_warp, 1.01 / 255, 1 / 255, labels=5e-3, why=why,
                          inside=True))
    elastic = "elastic(p=1,alpha=6..6,sigma=8..8)"
    for picture, limit in (("noise", WARP_NOISE), ("smooth", WARP_SMOOTH)):
        cases.append(Case("elastic, field given", "torchvision", elastic, picture, vision_elastic, limit, **exact,
                          inside=picture == "smooth", pinned=False))
    cases += [Case(op, "torchvision", f"{op}(p=1)", "noise", flip_replay(f"{name}_flip", op), 0, labels=0)
              for op, name in (("hflip", "horizontal"), ("vflip", "vertical"))]
    return cases


def lacks_nearest_exact(peers):
    """Came with 0.15. Bytes are resized as floats before that, and rounded once instead of after each axis."""
    return "" if hasattr(peers.modes, "NEAREST_EXACT") else \
        f"{peers.version('torchvision')} has no NEAREST_EXACT and resizes bytes as floats"


def crop_cases():
    out = (48, 40)
    resized = "random_resized_crop(scale=0.3..0.6)"
    larger = (96, 80)
    return [
        Case("random_resized_crop", "torchvision", resized, "noise", vision_resized_crop(out), 0, labels=0, out=out,
             pinned=False, lacks=lacks_nearest_exact),
        Case("random_resized_crop", "Pillow", resized, "noise", pillow_resized_crop(out), 1.01 / 255, labels=0, out=out,
             pinned=False, why="Pillow's weights have 22 bits, torchvision's and ours 15"),
        Case("random_crop", "torchvision", "random_crop", "noise", vision_crop(out), 0, labels=0, out=out, pinned=False),
        Case("random_crop, padded", "torchvision", "random_crop", "noise", vision_crop(larger), 0, labels=0, out=larger,
             size=(64, 48), pinned=False),
    ]


def colour_cases():
    adjust = lambda name: vision_image(
        lambda peers, planes, plan: getattr(peers.vision, "adjust_" + name)(planes, plan.factor(name)))
    cases = []
    for name, spec, limit in (("brightness", "factor=1.27..1.27", 2 * ULP), ("contrast", "factor=1.18..1.18", 2e-6),
                              ("saturation", "factor=0.83..0.83", 1e-6), ("hue", "shift=0.09..0.09", 5e-6),
                              ("hue", "shift=-0.31..-0.31", 5e-6), ("gamma", "gamma=0.83..0.83", 2e-6),
                              ("gamma", "gamma=1.7..1.7", 2e-6)):
        for picture in ("noise", "smooth"):
            value = spec.split("..")[1]  # tells apart the ops that come twice
            title = f"{name} {value}" if name in ("hue", "gamma") else name
            cases.append(Case(title, "torchvision", f"{name}(p=1,{spec})", picture, adjust(name), limit))
    jitter = "color_jitter(p=1,brightness=0.3,contrast=0.2,saturation=0.2,hue=0.1)"
    cases.append(Case("color_jitter", "torchvision", jitter, "noise", vision_image(vision_jitter), 1e-5, pinned=False,
                      why="in the order drawn"))
    luma = "Kornia's gray weighs red by 0.299, ours and torchvision's by 0.2989"
    enhance = lambda call: vision_image(lambda peers, planes, plan: call(peers.kornia.enhance, planes, plan))
    cases += [
        Case("brightness", "kornia", "brightness(p=1,factor=0.74..0.74)", "noise", enhance(
            lambda k, planes, plan: k.adjust_brightness_accumulative(planes, plan.factor("brightness"))), 2 * ULP),
        Case("contrast", "kornia", "contrast(p=1,factor=1.18..1.18)", "noise", enhance(
            lambda k, planes, plan: k.adjust_contrast_with_mean_subtraction(planes, plan.factor("contrast"))), 2e-4, why=luma),
        Case("saturation", "kornia", "saturation(p=1,factor=0.83..0.83)", "noise", enhance(
            lambda k, planes, plan: k.adjust_saturation_with_gray_subtraction(planes, plan.factor("saturation"))), 2e-4,
             why=luma),
        Case("hue 0.09", "kornia", "hue(p=1,shift=0.09..0.09)", "noise", enhance(
            lambda k, planes, plan: k.adjust_hue(planes, 2 * math.pi * plan.factor("hue"))), 5e-6),
        Case("gamma 0.83", "kornia", "gamma(p=1,gamma=0.83..0.83)", "noise", enhance(
            lambda k, planes, plan: k.adjust_gamma(planes, plan.factor("gamma"))), 2e-6),
    ]
    return cases


def other_cases():
    cases = []
    for taps, sigma in ((3, 0.1), (3, 1.3), (7, 2)):
        spec = f"gaussian_blur(p=1,kernel={taps},sigma={sigma}..{sigma})"
        cases += [
            Case(f"gaussian_blur {taps} {sigma}", "torchvision", spec, "noise", vision_image(vision_jitter), 1e-6),
            Case(f"gaussian_blur {taps} {sigma}", "kornia", spec, "noise", vision_image(kornia_blur), 1e-6),
            Case(f"gaussian_blur {taps} {sigma}", "OpenCV", spec, "noise", opencv_blur, 1e-6)]
    for clip, grid in ((2, 8), (4, 8), (1, 4), (40, 3)):
        cases.append(Case(f"clahe {clip} {grid}x{grid}", "OpenCV", f"clahe(p=1,clip={clip}..{clip},grid={grid})", "gray",
                          opencv_clahe, 0, why="on gray; of colours ours takes the luma, others L of Lab or each channel"))
    cases.append(Case("erasing", "torchvision", "erasing(p=1)", "noise", vision_image(vision_erase), 0, pinned=False))
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    cases.append(Case("normalize", "torchvision", "none", "noise", vision_image(
        lambda peers, planes, plan: peers.vision.normalize(planes, mean, std)), 1e-6, normalize=1))
    cases.append(Case("chain", "kornia", "hflip,rotate(p=1),scale(p=0.6),color_jitter(p=1),gaussian_blur(p=0.5)", "smooth",
                      vision_chain, 4 / 255, 0.5 / 255, labels=2e-4, ties_only=True, pinned=False,
                      why="warp by Kornia, colours by torchvision; ours rounds to bytes between"))
    return cases


def cases():
    return geometry_cases() + crop_cases() + colour_cases() + other_cases()


# ---- running and comparing ----

@dataclass
class Result:
    """What both sides made of a source."""
    plan: Plan
    field: np.ndarray | None
    ours: np.ndarray
    our_labels: np.ndarray
    theirs: np.ndarray
    their_labels: np.ndarray  # of a peer that leaves labels alone: the source's


def run_both(case, tool, peers, size, seed):
    out = case.out or size
    image, labels = make_picture(case.picture, *size, seed), make_labels(*size)
    plan = Plan(tool.draw(case.spec, size, out, seed))
    field = tool.field(out, *plan.elastic) if plan.elastic else None
    ours, our_labels = tool.run(image, labels, out, plan.text, case.normalize)
    theirs, their_labels = case.replay(peers, image, labels, plan, field)
    return Result(plan, field, ours, our_labels, theirs, labels if their_labels is None else their_labels)


def coordinates(result):
    """Where each output pixel looks: x and y in the source."""
    shape = result.our_labels.shape
    y, x = np.mgrid[:shape[0], :shape[1]].astype(np.float64)
    m, field = result.plan.source_map(), result.field
    return [m[axis, 0] * x + m[axis, 1] * y + m[axis, 2] + (field[..., axis] if field is not None else 0)
            for axis in (0, 1)]


def near_tie(result, within=1e-3):
    """Where a source coordinate lies so near a half that rounding it is a matter of the last bits."""
    return np.logical_or(*(np.abs(at - np.floor(at) - 0.5) < within for at in coordinates(result)))


def compared(case, result):
    """Which samples of the image are compared: CHW of booleans."""
    wanted = np.ones(result.our_labels.shape, bool)
    if case.inside:
        x, y = coordinates(result)
        height, width = wanted.shape
        wanted = (x >= 0) & (y >= 0) & (x <= width - 1) & (y <= height - 1)
    return np.broadcast_to(wanted, result.ours.shape)


def differences(case, result):
    return np.abs(result.ours.astype(np.float64) - result.theirs)[compared(case, result)]


def compare_labels(case, result):
    """Whether they agree well enough, and the share that differs. Photometric ops must leave labels alone."""
    wrong = result.our_labels != result.their_labels
    share = float(wrong.mean())
    if not case.ties_only:
        return share <= (case.labels or 0), share
    # Of a small picture two pixels are more than the share that is allowed of a large one.
    few = share <= case.labels or wrong.sum() <= 2
    return few and not (wrong & ~near_tie(result)).any(), share
