# SPDX-License-Identifier: Apache-2.0
"""Ops by the names and arguments that people know from Kornia and torchvision.

    from stokehold import Augment, ops

    Augment([ops.RandomHorizontalFlip(p=0.5), ops.RandomRotation(degrees=10), ops.ColorJitter(0.2, 0.2, 0.2, 0.1, p=0.8)])

Every function here gives an `Op`, which is nothing but a piece of the list that `augment` takes everywhere; the three above are
``"hflip(p=0.5),rotate(p=0.5,degrees=-10..10),color_jitter(...)"``. What an op does is written in docs/augmentation.md, as is
where that differs from Kornia and torchvision. `p` is the share of samples, and by default what it is in Kornia (torchvision's
RandomRotation and ColorJitter always act: say p=1). Arguments that nothing here can honour raise a ValueError that says so;
`same_on_batch=True` is one of them, since every sample is drawn by itself.
"""
import types
from typing import Any, Callable, Dict, List, Mapping, NoReturn, Optional, Sequence, Tuple, Union

from . import _checks

Range = Union[float, Sequence[float]]


class Op:
    """One op: its name here, its settings, and the output's size where the op was given one (crops)."""

    def __init__(self, name: str, settings: Mapping[str, str], size: Optional[Tuple[int, int]] = None) -> None:
        self.name = name
        self.settings = dict(settings)
        self.size = size

    def __str__(self) -> str:
        words = ",".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.name}({words})" if words else self.name

    def __repr__(self) -> str:
        return f"<stokehold op {self}>"


# ---- values


def _number(value: Any) -> str:
    return format(float(value), ".10g")


def _single(value: Any) -> bool:
    """One number rather than several: of Python, of NumPy, or a tensor without dimensions."""
    return getattr(value, "ndim", None) == 0 or not hasattr(value, "__iter__")


def _no(name: str, why: str) -> NoReturn:
    raise ValueError(f"{name}: {why}")


def _range(name: str, value: Range) -> str:
    """(a, b) or one number for both."""
    low, high = _pair(name, value)
    return _number(low) if low == high else f"{_number(low)}..{_number(high)}"


def _pair(name: str, value: Any) -> Tuple[float, float]:
    if _single(value):
        return float(value), float(value)
    values = [float(item) for item in value]
    if len(values) != 2:
        _no(name, f"a number or two are expected, not {len(values)}")
    return values[0], values[1]


def _spread(name: str, value: Range) -> Tuple[float, float]:
    """One number x is -x..x, as in torchvision and Kornia."""
    if _single(value):
        if value < 0:
            _no(name, f"one number is a range around 0, so {value} must not be negative: give (low, high)")
        return -float(value), float(value)
    return _pair(name, value)


def _limits(low: float, high: float) -> str:
    return f"{_number(low)}..{_number(high)}"


def _around(name: str, value: Range, middle: float) -> str:
    """x, or (middle - x, middle + x), as x."""
    if _single(value):
        return _number(value)
    low, high = _pair(name, value)
    if abs((middle - low) - (high - middle)) > 1e-6:
        _no(name, f"{low}..{high} does not lie evenly around {middle:g}: use RandomBrightness, RandomContrast, RandomSaturation "
                  "and RandomHue, which take any range")
    return _number(high - middle)


def _size(name: str, size: Any) -> Tuple[int, int]:
    if _single(size):
        return int(size), int(size)
    values = [int(item) for item in size]
    if len(values) == 1:
        values *= 2
    if len(values) != 2:
        _no(name, "size is a number or (height, width)")
    return values[0], values[1]


# What others say about how, not what: fine as long as it says what is done here anyway, by name or as the number that Kornia's lists
# give it. None: any value, since it changes nothing.
_HARMLESS: Dict[str, Any] = {
    "same_on_batch": (False,), "p_batch": (1,), "keepdim": None, "return_transform": None, "align_corners": None, "inplace": None,
    "center": (None,), "resample": ("bilinear", 1), "interpolation": ("bilinear",), "expand": (False,), "fill": (0, None),
    "fill_value": (None,), "padding": (None, 0), "pad_if_needed": None, "padding_mode": ("zeros", "constant", 0),
    "border_type": ("reflect", 1), "separable": None, "cropping_mode": None, "antialias": None, "clip_output": (True,),
    "slow_and_differentiable": None, "data_keys": None, "num_classes": None, "use_correct_lambda": None, "order": (None,),
    "silence_instantiation_warning": None,
}
# Why the value is the only one, where the name alone does not tell.
_WHY = {
    "same_on_batch": "every sample is drawn by itself",
    "p_batch": "every sample is drawn by itself, never a whole batch",
    "fill_value": "what comes in from outside is 0 in the image and ignore_index in the mask",
    "padding_mode": "what comes in from outside is 0 in the image and ignore_index in the mask",
    "order": "it is drawn for every sample; for a fixed one, list RandomBrightness, RandomContrast, RandomSaturation and RandomHue",
}


def _check(name: str, others: Mapping[str, Any]) -> None:
    for argument, value in others.items():
        if argument not in _HARMLESS:
            raise TypeError(f"{name} has no argument {argument!r}")
        allowed = _HARMLESS[argument]
        plain = getattr(value, "name", value)  # an enum of theirs
        if allowed is not None and (plain.lower() if isinstance(plain, str) else plain) not in allowed:
            why = f" ({_WHY[argument]})" if argument in _WHY else ""
            _no(name, f"{argument}={value!r} has no counterpart here; {argument} is always {allowed[0]!r}{why}")


def _op(name: str, op: str, p: float, others: Mapping[str, Any], **settings: str) -> Op:
    """`name` is what others call the op."""
    _check(name, others)
    return Op(op, {"p": _number(p), **settings})


def _alike(name: str, argument: str, value: Any) -> str:
    """A number for both directions."""
    down, across = _pair(name, value)
    if down != across:
        _no(name, f"{argument} is the same in both directions here")
    return _number(down)


# ---- geometry


def RandomHorizontalFlip(p: float = 0.5, *, swap: str = "", **others: Any) -> Op:
    """Left and right change places; ``swap="2-3"``: so do those classes of the mask."""
    return _op("RandomHorizontalFlip", "hflip", p, others, **({"swap": swap} if swap else {}))


def RandomVerticalFlip(p: float = 0.5, **others: Any) -> Op:
    """Top and bottom change places."""
    return _op("RandomVerticalFlip", "vflip", p, others)


def RandomRotation(degrees: Range, resample: Any = "bilinear", *, p: float = 0.5, **others: Any) -> Op:
    """Turns by -degrees..degrees, or (low, high); positive is counter-clockwise."""
    name = "RandomRotation"
    return _op(name, "rotate", p, {"resample": resample, **others}, degrees=_limits(*_spread(name, degrees)))


def RandomAffine(degrees: Range, translate: Optional[Sequence[float]] = None, scale: Optional[Sequence[float]] = None,
                 shear: Optional[Range] = None, *, p: float = 0.5, **others: Any) -> Op:
    """Turns (positive is clockwise in this one, as in Kornia and torchvision), shifts, scales and shears in one go."""
    name = "RandomAffine"
    low, high = _spread(name, degrees)
    across, down = (0.0, 0.0) if translate is None else _pair(name, translate)
    if scale is not None and len(scale) != 2:
        _no(name, "scale has one range for both directions here: (low, high)")
    return _op(name, "affine", p, others, degrees=_limits(-high, -low), translate_x=_limits(-across, across),
               translate_y=_limits(-down, down), scale="1" if scale is None else _range(name, scale), **_shear(name, shear))


def _shear(name: str, shear: Optional[Range]) -> Dict[str, str]:
    shear = 0.0 if shear is None else shear
    values = list(_spread(name, shear)) if _single(shear) else [float(value) for value in shear]
    if len(values) not in (2, 4):
        _no(name, "shear is a number, two, or four")
    for low, high in zip(values[::2], values[1::2]):
        if low != -high:
            _no(name, f"shear {low}..{high}: only ranges around 0 mean the same everywhere; write affine(shear=LOW..HIGH), which has "
                      "the sign of docs/augmentation.md")
    return {"shear": _limits(*values[:2]), "shear_y": _limits(*values[2:]) if len(values) == 4 else "0"}


def RandomCrop(size: Any, *, p: float = 1.0, **others: Any) -> Op:
    """A window of that size at a random place; smaller pictures are placed inside."""
    return _crop("RandomCrop", "random_crop", size, p, others)


def CenterCrop(size: Any, *, p: float = 1.0, **others: Any) -> Op:
    """The window of that size in the middle."""
    return _crop("CenterCrop", "center_crop", size, p, others)


def _crop(name: str, op: str, size: Any, p: float, others: Mapping[str, Any], **settings: str) -> Op:
    _check(name, others)
    if p != 1:
        _no(name, "a crop is always made (p=1): otherwise sizes would differ")
    return Op(op, settings, _size(name, size))


def RandomResizedCrop(size: Any, scale: Sequence[float] = (0.08, 1.0), ratio: Sequence[float] = (3 / 4, 4 / 3), *, p: float = 1.0,
                      **others: Any) -> Op:
    """A part of random area and shape, stretched to that size."""
    name = "RandomResizedCrop"
    return _crop(name, "random_resized_crop", size, p, others, scale=_range(name, scale), ratio=_range(name, ratio))


# ---- colour


def ColorJitter(brightness: Range = 0.0, contrast: Range = 0.0, saturation: Range = 0.0, hue: Range = 0.0, *, p: float = 1.0,
                **others: Any) -> Op:
    """The four of them, in an order drawn for every sample."""
    name = "ColorJitter"
    return _op(name, "color_jitter", p, others, brightness=_around(name, brightness, 1), contrast=_around(name, contrast, 1),
               saturation=_around(name, saturation, 1), hue=_around(name, hue, 0))


def RandomBrightness(brightness: Range = (1.0, 1.0), *, p: float = 1.0, **others: Any) -> Op:
    """All values times a factor of that range, as in ColorJitter. (Kornia's class of this name adds factor - 1.)"""
    return _op("RandomBrightness", "brightness", p, others, factor=_range("RandomBrightness", brightness))


def RandomContrast(contrast: Range = (1.0, 1.0), *, p: float = 1.0, **others: Any) -> Op:
    """Away from or towards the mean gray, as in ColorJitter. (Kornia's class of this name multiplies all values.)"""
    return _op("RandomContrast", "contrast", p, others, factor=_range("RandomContrast", contrast))


def RandomSaturation(saturation: Range = (1.0, 1.0), *, p: float = 1.0, **others: Any) -> Op:
    """Away from or towards the pixel's gray, as in ColorJitter. (Kornia's class of this name does it in HSV.)"""
    return _op("RandomSaturation", "saturation", p, others, factor=_range("RandomSaturation", saturation))


def RandomHue(hue: Range = (0.0, 0.0), *, p: float = 1.0, **others: Any) -> Op:
    """The colour circle, turned by a share of that range."""
    return _op("RandomHue", "hue", p, others, shift=_limits(*_pair("RandomHue", hue)))


def RandomGamma(gamma: Range = (1.0, 1.0), gain: Range = (1.0, 1.0), *, p: float = 1.0, **others: Any) -> Op:
    """Values to a power."""
    return _op("RandomGamma", "gamma", p, others, gamma=_range("RandomGamma", gamma), gain=_range("RandomGamma", gain))


def RandomGaussianBlur(kernel_size: Any, sigma: Range, *, p: float = 0.5, **others: Any) -> Op:
    """Gaussian blur of kernel_size taps in both directions."""
    name = "RandomGaussianBlur"
    return _op(name, "gaussian_blur", p, others, kernel=_alike(name, "kernel_size", kernel_size), sigma=_range(name, sigma))


def GaussianBlur(kernel_size: Any, sigma: Range = (0.1, 2.0), *, p: float = 1.0, **others: Any) -> Op:
    """torchvision's name of it, which always acts."""
    return RandomGaussianBlur(kernel_size, sigma, p=p, **others)


def RandomGaussianNoise(mean: float = 0.0, std: Range = 1.0, *, p: float = 0.5, **others: Any) -> Op:
    """Noise on values in 0..1, then cut to 0..1."""
    return _op("RandomGaussianNoise", "gaussian_noise", p, others, mean=_number(mean), std=_range("RandomGaussianNoise", std))


def RandomClahe(clip_limit: Range = (40.0, 40.0), grid_size: Any = (8, 8), *, p: float = 0.5, **others: Any) -> Op:
    """Equalisation of the lightness in grid_size tiles."""
    name = "RandomClahe"
    return _op(name, "clahe", p, others, clip=_range(name, clip_limit), grid=_alike(name, "grid_size", grid_size))


def RandomErasing(scale: Sequence[float] = (0.02, 0.33), ratio: Sequence[float] = (0.3, 3.3), value: float = 0.0, *, p: float = 0.5,
                  **others: Any) -> Op:
    """A box painted with `value` (0..1). The mask keeps its classes there."""
    name = "RandomErasing"
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        _no(name, f"value {value!r}: it is a number in 0..1 (write erasing(value=R,G,B) for a colour)")
    return _op(name, "erasing", p, others, scale=_range(name, scale), ratio=_range(name, ratio), value=_number(255 * value))


def Normalize(mean: Any, std: Any, *, p: float = 1.0, **others: Any) -> Op:
    """(value - mean) / std by channel, of values in 0..1; the last thing done to an image."""
    _check("Normalize", others)
    if p != 1:
        _no("Normalize", "it is always done (p=1)")
    return Op("normalize", {"mean": _three("Normalize", mean), "std": _three("Normalize", std)})


def _three(name: str, values: Any) -> str:
    numbers = [float(values)] * 3 if _single(values) else [float(value) for value in values]
    if len(numbers) != 3:
        _no(name, "three numbers, one for each channel")
    return ",".join(_number(number) for number in numbers)


# ---- mixing


def _shares(name: str, value: Any) -> Tuple[float, float]:
    low, high = _pair(name, value)
    if not 0 <= low <= high <= 1:
        _no(name, f"{low:g}..{high:g}: two shares, from low to high within 0..1")
    return low, high


def RandomMixUpV2(lambda_val: Any = None, *, alpha: float = 1.0, p: float = 1.0, **others: Any) -> Op:
    """Blends with the row before; the batch then has two masks (`as_dict=True`).

    lambda_val is the range of the other picture's share, as in Kornia, evenly drawn; alpha 1 draws from all of it alike.
    """
    name, share = "RandomMixUpV2", {}
    if lambda_val is not None:
        low, high = _shares(name, lambda_val)
        share["share"] = _range(name, (1 - high, 1 - low))  # Kornia's is that of the other picture
    return _op(name, "mixup", p, others, alpha=_number(alpha), **share)


def RandomCutMixV2(num_mix: int = 1, cut_size: Any = None, beta: Optional[float] = None, *, alpha: Optional[float] = None,
                   p: float = 1.0, **others: Any) -> Op:
    """Pastes a box of image and mask of the row before.

    The own picture's share is drawn from Beta(beta, beta) and cut to the range cut_size, as in Kornia; the box then lies inside.
    """
    name = "RandomCutMixV2"
    if num_mix != 1:
        _no(name, "one box is pasted: num_mix is always 1")
    drawn = alpha if beta is None else beta
    share = {} if cut_size is None else {"share": _range(name, _shares(name, cut_size))}
    return _op(name, "cutmix", p, others, alpha="1" if drawn is None else _number(drawn), **share)


def MixUp(*, alpha: float = 1.0, p: float = 1.0, **others: Any) -> Op:
    """torchvision's name of RandomMixUpV2."""
    return RandomMixUpV2(alpha=alpha, p=p, **others)


def CutMix(*, alpha: float = 1.0, p: float = 1.0, **others: Any) -> Op:
    """torchvision's name of RandomCutMixV2."""
    return RandomCutMixV2(alpha=alpha, p=p, **others)


# Other names of the same. Kornia's ColorJiggle differs from its ColorJitter in how it adds brightness; here there is one.
HorizontalFlip = RandomHorizontalFlip
VerticalFlip = RandomVerticalFlip
Rotation = RandomRotation
Affine = RandomAffine
ColorJiggle = ColorJitter
GaussianNoise = RandomGaussianNoise

_BY_NAME: Dict[str, Callable[..., Op]] = {
    name: value for name, value in globals().items() if name[0].isupper() and isinstance(value, types.FunctionType)
}
__all__ = ["Op", "from_name", "text", *_BY_NAME]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    raise AttributeError(_unknown(name))


def _unknown(name: str) -> str:
    return f"{name} has no counterpart here; there are {', '.join(sorted(_BY_NAME))}"


# ---- lists


def from_name(name: str, **arguments: Any) -> Op:
    """The op that a class name of Kornia or torchvision stands for, with its arguments."""
    if name not in _BY_NAME:
        raise ValueError(_unknown(name))
    return _BY_NAME[name](**arguments)


def _from_dict(item: Mapping[str, Any]) -> Union[str, Op]:
    """{"hflip": {"p": 0.3}} as in YAML, {"RandomRotation": {"degrees": 10}}, or {"name": "RandomRotation", "degrees": 10}."""
    if "name" in item:
        name, arguments = item["name"], {key: value for key, value in item.items() if key != "name"}
    elif len(item) == 1:
        ((name, arguments),) = item.items()
    else:
        raise ValueError(f"an op as a dict is {{name: {{setting: value}}}}, not {dict(item)!r}")
    arguments = arguments or {}
    if name[:1].isupper():  # a class of theirs; ops here are lower case
        return from_name(name, **arguments)
    words = ",".join(f"{key}={_plain(value)}" for key, value in arguments.items())
    return f"{name}({words})" if words else str(name)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return (".." if len(value) == 2 else ",").join(str(item) for item in value)
    return str(value)


MIXING = ("use_mixup", "use_cutmix", "mixup_alpha", "cutmix_alpha", "mixup_prob", "cutmix_prob")


def with_mixing(augment: Any, use_mixup: bool = False, use_cutmix: bool = False, mixup_alpha: float = 0.2, cutmix_alpha: float = 1.0,
                mixup_prob: float = 0.3, cutmix_prob: float = 0.3) -> Any:
    """`augment` with mixup and cutmix behind it, as the six options by these names say."""
    for name, value, alpha in (("mixup_alpha", mixup_alpha, True), ("cutmix_alpha", cutmix_alpha, True),
                               ("mixup_prob", mixup_prob, False), ("cutmix_prob", cutmix_prob, False)):
        _checks.real(name, value, *((0.01, 100) if alpha else (0, 1)))
    more = []
    if _checks.flag("use_mixup", use_mixup):
        more.append(RandomMixUpV2(alpha=mixup_alpha, p=mixup_prob))
    if _checks.flag("use_cutmix", use_cutmix):
        more.append(RandomCutMixV2(alpha=cutmix_alpha, p=cutmix_prob))
    if not more:
        return augment
    if hasattr(augment, "__fspath__"):
        augment = augment.__fspath__()
    if isinstance(augment, str) and augment.endswith((".yaml", ".yml")):
        raise ValueError(f"augment={augment!r}: mixup and cutmix of a file stand in the file, not in use_mixup and use_cutmix")
    before = [] if augment is None or augment == "none" else list(augment) if isinstance(augment, (list, tuple)) else [augment]
    return before + more


def text(augment: Any) -> Tuple[Optional[str], Optional[Tuple[int, int]]]:
    """What `augment` may be, as the text that the library reads, and the size that crops in it ask for."""
    if augment is None or isinstance(augment, str):
        return augment, None
    items = augment if isinstance(augment, (list, tuple)) else [augment]
    parts: List[str] = []
    size = None
    for item in items:
        if isinstance(item, Mapping):
            item = _from_dict(item)
        if not isinstance(item, (str, Op)):
            kind = type(item).__name__
            hint = f"write stokehold.ops.{kind}(...) with the same arguments" if kind in _BY_NAME else _unknown(kind)
            raise TypeError(f"augment: {type(item).__module__}.{kind} is an object of another library: {hint}")
        parts.append(str(item))
        wanted = getattr(item, "size", None)
        if wanted is not None:
            if size not in (None, wanted):
                raise ValueError(f"augment: crops to {size} and to {wanted}; all batches have one size")
            size = wanted
    return ",".join(parts) or "none", size
