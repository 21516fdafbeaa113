# SPDX-License-Identifier: Apache-2.0
"""The ops of the usual chain by Kornia's names: every argument of its classes is taken with its meaning or refused.

What Kornia 0.9.0 takes is recorded here and always held against ours; where Kornia is installed, its own signatures and pixels are.
"""
import inspect

import numpy
import pytest

from stokehold import Augment, ops

NEEDED = inspect.Parameter.empty  # has no default

# Flips have the signature of Kornia's base class; scale is RandomAffine's.
RECORDED = {
    "RandomHorizontalFlip": {"p": 0.5, "p_batch": 1.0, "same_on_batch": False, "keepdim": False},
    "RandomRotation": {"degrees": NEEDED, "resample": "BILINEAR", "same_on_batch": False, "align_corners": True, "p": 0.5,
                       "keepdim": False},
    "RandomAffine": {"degrees": NEEDED, "translate": None, "scale": None, "shear": None, "resample": "BILINEAR", "same_on_batch": False,
                     "align_corners": False, "padding_mode": "ZEROS", "fill_value": None, "p": 0.5, "keepdim": False},
    "ColorJitter": {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0, "same_on_batch": False, "p": 1.0,
                    "keepdim": False, "order": None},
    "RandomGaussianBlur": {"kernel_size": NEEDED, "sigma": NEEDED, "border_type": "reflect", "separable": True, "same_on_batch": False,
                           "p": 0.5, "keepdim": False},
    "RandomGaussianNoise": {"mean": 0.0, "std": 1.0, "same_on_batch": False, "p": 0.5, "keepdim": False},
}
NEEDS = {"degrees": 20.0, "kernel_size": (3, 3), "sigma": (0.1, 2.0)}

# Arguments that say what is drawn; the value is Kornia's, the text what the library reads.
MEANT = [
    ("RandomHorizontalFlip", {"p": 0.25}, "hflip(p=0.25)"),
    ("RandomRotation", {"degrees": 20.0, "p": 0.6}, "rotate(p=0.6,degrees=-20..20)"),
    ("RandomRotation", {"degrees": [10, 30]}, "rotate(p=0.5,degrees=10..30)"),
    ("RandomRotation", {"degrees": numpy.float32(20)}, "rotate(p=0.5,degrees=-20..20)"),
    ("RandomRotation", {"degrees": numpy.array([-5.0, 5.0])}, "rotate(p=0.5,degrees=-5..5)"),
    ("RandomAffine", {"degrees": 0, "scale": (0.8, 1.2), "p": 0.6},
     "affine(p=0.6,degrees=-0..0,translate_x=-0..0,translate_y=-0..0,scale=0.8..1.2,shear=-0..0,shear_y=0)"),
    ("RandomAffine", {"degrees": (10, 30)},  # clockwise is positive in this class alone
     "affine(p=0.5,degrees=-30..-10,translate_x=-0..0,translate_y=-0..0,scale=1,shear=-0..0,shear_y=0)"),
    ("RandomAffine", {"degrees": 0, "translate": (0.1, 0.2), "shear": (-5, 5, -3, 3)},
     "affine(p=0.5,degrees=-0..0,translate_x=-0.1..0.1,translate_y=-0.2..0.2,scale=1,shear=-5..5,shear_y=-3..3)"),
    ("ColorJitter", {"brightness": 0.3, "contrast": 0.2, "saturation": 0.2, "hue": 0.1, "p": 0.5},
     "color_jitter(p=0.5,brightness=0.3,contrast=0.2,saturation=0.2,hue=0.1)"),
    ("ColorJitter", {"brightness": (0.7, 1.3), "hue": (-0.1, 0.1)},
     "color_jitter(p=1,brightness=0.3,contrast=0,saturation=0,hue=0.1)"),
    ("RandomGaussianBlur", {"kernel_size": 5, "sigma": (0.1, 2.0), "p": 0.3}, "gaussian_blur(p=0.3,kernel=5,sigma=0.1..2)"),
    ("RandomGaussianNoise", {"mean": 0.1, "std": 0.03, "p": 0.3}, "gaussian_noise(p=0.3,mean=0.1,std=0.03)"),
]

# Values that the library has nothing for. Every argument of RECORDED stands here, in MEANT, or may have any value.
REFUSED = [
    ("RandomHorizontalFlip", {"p_batch": 0.5}, "never a whole batch"),
    ("RandomHorizontalFlip", {"same_on_batch": True}, "every sample is drawn by itself"),
    ("RandomRotation", {"degrees": -20.0}, "must not be negative"),
    ("RandomRotation", {"resample": "nearest"}, "resample is always 'bilinear'"),
    ("RandomRotation", {"resample": 2}, "resample is always 'bilinear'"),
    ("RandomRotation", {"same_on_batch": True}, "every sample is drawn by itself"),
    ("RandomAffine", {"scale": (0.8, 1.2, 0.9, 1.1)}, "one range for both directions"),
    ("RandomAffine", {"shear": (0.0, 10.0)}, "ranges around 0"),
    ("RandomAffine", {"resample": 0}, "resample is always 'bilinear'"),
    ("RandomAffine", {"same_on_batch": True}, "every sample is drawn by itself"),
    ("RandomAffine", {"padding_mode": "border"}, "ignore_index in the mask"),
    ("RandomAffine", {"fill_value": 0.5}, "ignore_index in the mask"),
    ("ColorJitter", {"brightness": (0.5, 1.2)}, "RandomBrightness"),
    ("ColorJitter", {"same_on_batch": True}, "every sample is drawn by itself"),
    ("ColorJitter", {"order": (0, 1, 2, 3)}, "it is drawn for every sample"),
    ("RandomGaussianBlur", {"kernel_size": (3, 5)}, "the same in both directions"),
    ("RandomGaussianBlur", {"border_type": "circular"}, "border_type is always 'reflect'"),
    ("RandomGaussianBlur", {"same_on_batch": True}, "every sample is drawn by itself"),
    ("RandomGaussianNoise", {"same_on_batch": True}, "every sample is drawn by itself"),
]
ANY_VALUE = {"keepdim", "align_corners", "separable"}


def with_needs(name, arguments, signature=None):
    needed = [argument for argument, default in (signature or RECORDED[name]).items() if default is NEEDED]
    return {**{argument: NEEDS[argument] for argument in needed}, **arguments}


def made(name, arguments, signature=None):
    return str(ops.from_name(name, **with_needs(name, arguments, signature)))


def check_defaults(name, signature):
    """Each argument said with its default is the op without it, and the library reads it."""
    plain = made(name, {}, signature)
    for argument, default in signature.items():
        if default is not NEEDED:
            assert made(name, {argument: default}, signature) == plain, argument
    assert Augment(plain).pipeline.startswith(plain.partition("(")[0])


@pytest.mark.parametrize("name", RECORDED)
def test_defaults_are_kornias(name):
    check_defaults(name, RECORDED[name])


def test_every_argument_is_tried():
    for name, signature in RECORDED.items():
        tried = {argument for case in MEANT + REFUSED if case[0] == name for argument in case[1]}
        assert set(signature) - tried - ANY_VALUE == set(), name


@pytest.mark.parametrize("name, arguments, text", MEANT)
def test_what_is_meant(name, arguments, text):
    assert made(name, arguments) == text
    assert Augment(text).pipeline.startswith(text.partition("(")[0])


@pytest.mark.parametrize("name, arguments, why", REFUSED)
def test_what_is_refused(name, arguments, why):
    with pytest.raises(ValueError, match=why):
        made(name, arguments)


@pytest.mark.parametrize("argument", sorted(ANY_VALUE))
def test_what_changes_nothing(argument):
    for name, signature in RECORDED.items():
        if argument in signature:
            assert made(name, {argument: True}) == made(name, {argument: False})


def test_p_is_the_share_of_samples():
    """Of 4000 pictures that differ from their mirror image, 0.3 are flipped: within four standard deviations, seed 0."""
    images = numpy.zeros((4000, 2, 2, 3), "u1")
    images[:, :, 0] = 255
    flipped = Augment([ops.RandomHorizontalFlip(p=0.3)])(images)[:, 0, 1, 0] == 255
    assert abs(flipped.mean() - 0.3) < 4 * (0.3 * 0.7 / 4000) ** 0.5
    for p in (0, 1):
        assert ((Augment([ops.RandomHorizontalFlip(p=p)])(images)[:, 0, 1, 0] == 255) == p).all()


# ---- live


@pytest.fixture(scope="module")
def kornia(torch):
    return pytest.importorskip("kornia")


def signature_of(kornia, name):
    parameters = inspect.signature(getattr(kornia.augmentation, name)).parameters
    return {argument: parameter.default for argument, parameter in parameters.items()}


@pytest.mark.parametrize("name", RECORDED)
def test_signatures_live(kornia, name):
    signature = signature_of(kornia, name)
    check_defaults(name, signature)
    if kornia.__version__ == "0.9.0":
        assert signature == RECORDED[name] and list(signature) == list(RECORDED[name])


@pytest.mark.parametrize("name, arguments, limit", [
    ("RandomHorizontalFlip", {}, 1e-4),
    ("RandomRotation", {"degrees": (25.0, 25.0)}, 2e-2),
    ("RandomRotation", {"degrees": (-25.0, -25.0)}, 2e-2),
    ("RandomAffine", {"degrees": (25.0, 25.0)}, 2e-2),
    ("RandomAffine", {"degrees": (0.0, 0.0), "scale": (1.25, 1.25)}, 2e-2),
    ("RandomHue", {"hue": (0.1, 0.1)}, 1e-4),
    ("RandomGamma", {"gamma": (1.5, 1.5), "gain": (0.8, 0.8)}, 1e-4),
    ("RandomGaussianBlur", {"kernel_size": (5, 5), "sigma": (1.3, 1.3)}, 1e-4),
    ("RandomGaussianNoise", {"mean": 0.25, "std": 0.0}, 1e-4),
])
def test_pixels_live(kornia, torch, name, arguments, limit):
    """Ranges of one value leave nothing to draw: the pictures must be alike, away from the border that each fills by itself."""
    down, across = numpy.mgrid[0:64, 0:64] / 64  # without symmetry, so that a wrong sign shows; with waves to blur
    waves = 0.2 * numpy.sin(40 * across)
    image = numpy.stack([0.2 + 0.5 * down, 0.3 + 0.4 * across ** 2, 0.3 + 0.3 * down * across + waves], -1).astype("f4")
    theirs = getattr(kornia.augmentation, name)(**arguments, p=1.0)(torch.from_numpy(image).permute(2, 0, 1)[None])
    ours = Augment([ops.from_name(name, **arguments, p=1.0)])(image[None])[0]
    difference = numpy.abs(theirs[0].permute(1, 2, 0).numpy() - ours)[16:48, 16:48]
    assert difference.max() <= limit and numpy.abs(ours - image)[16:48, 16:48].max() > 0.02
