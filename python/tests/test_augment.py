# SPDX-License-Identifier: Apache-2.0
"""Augment: the loader's bytes from pictures in memory, of every kind; ops by the names of others."""
import pickle

import numpy
import pytest

import stokehold
from stokehold import Augment, _stoke, ops


@pytest.fixture(scope="module")
def pixels(data):
    """The set as it is decoded: uint8, N x H x W x 3, and class ids."""
    with stokehold.Loader(data, batch_size=22, order="sequential", augment="none", dtype="u8", layout="hwc", output="numpy") as loader:
        images, masks = next(iter(loader))
        return images.copy(), masks.copy()


def delivered(make, **settings):
    """Batches of the first epoch, with ids."""
    return [{name: numpy.array(value) for name, value in batch.items()} for batch in make(as_dict=True, batch_size=8, **settings)]


STRONG = "random_resized_crop(scale=0.25..1),hflip,affine,color_jitter,gaussian_blur,gaussian_noise,cutmix"


@pytest.mark.parametrize("augment", ["none", "standard", STRONG])
def test_bytes_are_the_loaders(make, pixels, augment):
    images, masks = pixels
    own = Augment(augment, image_size=32, seed=5, dtype="f32", layout="chw")
    for batch in delivered(make, augment=augment, seed=5):
        ids = batch["ids"]
        result = own(images[ids], masks[ids])
        assert (result[0] == batch["images"]).all() and (result[1] == batch["masks"]).all()
    assert own.position == 22


def test_lists_and_single_samples_are_the_same(pixels):
    images, masks = pixels
    whole = Augment("standard", 32, threads=1)(images[:5], masks[:5])
    lists = Augment("standard", 32, threads=3)(list(images[:5]), list(masks[:5]))
    one = Augment("standard", 32)
    singles = [one(image, mask) for image, mask in zip(images[:5], masks[:5])]
    for kind in (0, 1):
        assert (whole[kind] == lists[kind]).all() and (whole[kind] == numpy.stack([sample[kind] for sample in singles])).all()
    assert singles[0][0].shape == (32, 32, 3) and singles[0][1].shape == (32, 32)
    later = Augment("standard", 32)
    assert (later(images[3], masks[3], position=3)[0] == singles[3][0]).all() and later.position == 0


def test_strides_and_layouts_do_not_matter(pixels):
    images, masks = pixels
    plain = Augment("standard", 32)(images[:3], masks[:3])
    first = Augment("standard", 32)(images[:3].transpose(0, 3, 1, 2), masks[:3].astype("i8"))
    assert first[0].shape == (3, 3, 32, 32) and (first[0].transpose(0, 2, 3, 1) == plain[0]).all()
    assert first[1].dtype == numpy.int64 and (first[1] == plain[1]).all()
    wide = numpy.zeros((3, 80, 96, 3), "u1")
    wide[:, ::2, ::-2] = images[:3]
    assert (Augment("standard", 32)(wide[:, ::2, ::-2], masks[:3])[0] == plain[0]).all()


def test_sizes(pixels):
    images, masks = pixels
    assert Augment("hflip")(images[:2]).shape == images[:2].shape  # as they come; without masks images alone
    different = [images[0], images[1][:20], images[2][:, :30]]
    assert Augment("hflip", 16)(different).shape == (3, 16, 16, 3)
    with pytest.raises(ValueError, match="say image_size"):
        Augment("hflip")(different)
    assert Augment([ops.RandomCrop((16, 20))])(images[0]).shape == (16, 20, 3)
    with pytest.raises(ValueError, match="crops to 16x20"):
        Augment([ops.RandomCrop((16, 20))], image_size=32)


def test_epochs(pixels):
    images, _ = pixels
    own = Augment("standard", 32)
    first, second = own(images[:4]), own(images[:4])
    own.set_epoch(1)
    other = own(images[:4])
    own.set_epoch(0)
    assert (own(images[:4]) == first).all() and (first != second).any() and (first != other).any()
    copy = pickle.loads(pickle.dumps(own))
    assert copy.position == 4 and (copy(images[:4]) == second).all()


def test_torch(pixels, torch):
    images, masks = pixels
    plain = Augment("standard", 32)(images[:3], masks[:3])
    tensors = torch.from_numpy(images[:3]).permute(0, 3, 1, 2), torch.from_numpy(masks[:3]).long()
    result = Augment("standard", 32)(*tensors)
    assert result[0].dtype == torch.uint8 and result[1].dtype == torch.int64 and result[0].shape == (3, 3, 32, 32)
    assert (result[0].permute(0, 2, 3, 1).numpy() == plain[0]).all() and (result[1].numpy() == plain[1]).all()
    real = Augment("none")(tensors[0].float() / 255)
    assert real.dtype == torch.float32 and torch.allclose(real, tensors[0].float() / 255, atol=1e-4)
    assert Augment("none")((tensors[0].float() / 255).requires_grad_().half()).dtype == torch.float16
    image, mask = Augment("standard", 32)(tensors[0][0], tensors[1][0])
    assert (image.permute(1, 2, 0).numpy() == plain[0][0]).all() and (mask.numpy() == plain[1][0]).all()
    with pytest.raises(ValueError, match="meta"):
        Augment("none")(tensors[0].to("meta"))


def test_pil(pixels):
    pil = pytest.importorskip("PIL.Image")
    images, masks = pixels
    image, mask = Augment("standard", 32)(pil.fromarray(images[0]), pil.fromarray(masks[0]))
    plain = Augment("standard", 32)(images[0], masks[0])
    assert (image == plain[0]).all() and (mask == plain[1]).all()
    assert Augment("none")(pil.fromarray(images[0]).convert("RGBA")).shape == images[0].shape


def test_mixup(pixels):
    images, masks = pixels
    result = Augment("mixup(p=1)", as_dict=True)(images[:4], masks[:4])
    assert (result["masks_b"][1:] == masks[:3]).all() and result["lambda"].shape == (4,)
    with pytest.raises(ValueError, match="as_dict=True"):
        Augment("mixup")(images[:4], masks[:4])


def test_results_stay(pixels):
    images, _ = pixels
    own = Augment("standard", 32)
    kept = [own(images[:2]) for _ in range(6)]
    copies = [one.copy() for one in kept]
    for _ in range(6):
        own(images[:2])
    del own
    assert all((one == copy).all() for one, copy in zip(kept, copies))


@pytest.mark.parametrize("image, mask, error", [
    (numpy.zeros((4, 5, 3), "i2"), None, "elements of type <i2"),
    (numpy.zeros((4, 5, 4), "u1"), None, "1 or 3 channels, this one has 4"),
    (numpy.zeros((4, 5, 3), "u1"), numpy.zeros((4, 4), "u1"), "mask"),
    (numpy.zeros((4, 5, 3), "u1"), numpy.full((4, 5), -1), "no class id"),
    (numpy.zeros(5, "u1"), None, "two dimensions"),
    ("text", None, "array of NumPy"),
    ([numpy.zeros((4, 5, 3), "u1"), "text"], None, "array of NumPy"),
    ([], [], "no images"),
    ([numpy.zeros((4, 5, 3), "u1")], [], "1 images and 0 masks"),
])
def test_mistakes(image, mask, error):
    with pytest.raises((TypeError, ValueError), match=error):
        Augment("none")(image, mask)


def test_a_batch_belongs_to_its_maker(make, pixels):
    rows, others = _stoke.Rows({"size": "8"}), _stoke.Rows({"size": "8"})
    batch = rows.begin(1, 0, 0)
    for wrong in (others.begin(1, 0, 0), make()._core.next()):
        with pytest.raises(ValueError, match="somebody else"):
            rows.put(wrong, 0, pixels[0][0], None)
    with pytest.raises(ValueError, match="row 1 of a batch of 1"):
        rows.put(batch, 1, pixels[0][0], None)
    with pytest.raises(TypeError, match="not a batch"):
        rows.finish(rows)


# ---- names of others


@pytest.mark.parametrize("given, expected", [
    (ops.RandomHorizontalFlip(), "hflip(p=0.5)"),
    (ops.HorizontalFlip(p=0.3, same_on_batch=False, keepdim=True), "hflip(p=0.3)"),
    (ops.RandomRotation(10), "rotate(p=0.5,degrees=-10..10)"),
    (ops.RandomRotation((0, 30), p=1), "rotate(p=1,degrees=0..30)"),
    (ops.RandomAffine((0, 30), (0.1, 0.2), (0.8, 1.2), 5, p=1),
     "affine(p=1,degrees=-30..-0,translate_x=-0.1..0.1,translate_y=-0.2..0.2,scale=0.8..1.2,shear=-5..5,shear_y=0)"),
    (ops.ColorJitter(0.2, (0.7, 1.3), 0.2, (-0.1, 0.1), p=0.8),
     "color_jitter(p=0.8,brightness=0.2,contrast=0.3,saturation=0.2,hue=0.1)"),
    (ops.RandomGaussianBlur((3, 3), (0.1, 2.0)), "gaussian_blur(p=0.5,kernel=3,sigma=0.1..2)"),
    (ops.RandomErasing(value=1.0), "erasing(p=0.5,scale=0.02..0.33,ratio=0.3..3.3,value=255)"),
    (ops.RandomMixUpV2(p=0.5), "mixup(p=0.5,alpha=1)"),
    (ops.RandomCutMixV2(beta=0.4), "cutmix(p=1,alpha=0.4)"),
    (ops.RandomMixUpV2(lambda_val=(0.2, 0.2), p=0.3), "mixup(p=0.3,alpha=1,share=0.8)"),
    (ops.RandomMixUpV2(lambda_val=(0.1, 0.4)), "mixup(p=1,alpha=1,share=0.6..0.9)"),
    (ops.RandomCutMixV2(cut_size=(0.2, 0.8), p=0.3), "cutmix(p=0.3,alpha=1,share=0.2..0.8)"),
    (ops.Normalize((0.5, 0.5, 0.5), 0.25), "normalize(mean=0.5,0.5,0.5,std=0.25,0.25,0.25)"),
])
def test_ops(given, expected):
    assert str(given) == expected
    assert Augment([given], as_dict=True).pipeline.startswith(given.name)  # the library reads it


def test_every_op_is_read_by_the_library():
    needed = {"degrees": 5, "size": 8, "kernel_size": 3, "sigma": 1.0, "mean": 0.5, "std": 0.5}
    for name, op in ops._BY_NAME.items():
        wanted = op.__code__.co_varnames[:op.__code__.co_argcount][:op.__code__.co_argcount - len(op.__defaults__ or ())]
        made = op(**{argument: needed[argument] for argument in wanted})
        assert Augment([made], as_dict=True).pipeline.startswith(made.name), name


def test_lists_of_everything(make):
    mixed = [ops.RandomHorizontalFlip(p=0.3), "vflip(p=0.1)", {"rotate": {"degrees": [-5, 10], "p": 1}},
             {"name": "ColorJitter", "hue": 0.1}]
    assert Augment(mixed).pipeline == ("hflip(p=0.3),vflip(p=0.1),rotate(p=1,degrees=-5..10),"
                                       "color_jitter(p=1,brightness=0,contrast=0,saturation=0,hue=0.1)")
    assert next(iter(make(image_size=None, augment=[ops.RandomCrop(24), {"hflip": None}])))[0].shape == (4, 3, 24, 24)


@pytest.mark.parametrize("mistake, error", [
    (lambda: ops.RandomRotation(10, same_on_batch=True), "same_on_batch=True has no counterpart"),
    (lambda: ops.RandomRotation(10, resample="nearest"), "always 'bilinear'"),
    (lambda: ops.RandomRotation(10, degree=3), "no argument 'degree'"),
    (lambda: ops.ColorJitter((0.5, 1.2)), "evenly around 1"),
    (lambda: ops.RandomAffine(10, shear=(0, 10)), "ranges around 0"),
    (lambda: ops.RandomCrop(8, p=0.5), "p=1"),
    (lambda: ops.RandomMixUpV2(lambda_val=(0.8, 0.2)), "from low to high"),
    (lambda: ops.RandomCutMixV2(cut_size=(0.2, 1.2)), "within 0..1"),
    (lambda: ops.RandomCutMixV2(num_mix=2), "num_mix is always 1"),
    (lambda: ops.RandomPerspective(), "RandomPerspective has no counterpart"),
    (lambda: Augment([{"name": "RandomSolarize"}]), "RandomSolarize has no counterpart"),
    (lambda: Augment([object()]), "object of another library"),
    (lambda: Augment("none", normalize="roate"), "imagenet"),
    (lambda: Augment([ops.RandomHorizontalFlip(p=2)]), "p"),
    (lambda: Augment(threads=0), "threads=0: 1 or more"),
])
def test_what_has_no_counterpart_says_so(mistake, error):
    with pytest.raises((TypeError, ValueError, AttributeError), match=error):
        mistake()


def test_the_six_options_of_mixing(make, data):
    """By their names, in the loader and in Augment; of a file they would not know what is there."""
    images, masks = numpy.zeros((4, 16, 16, 3), numpy.uint8), numpy.zeros((4, 16, 16), numpy.uint8)
    augment = Augment("hflip", use_mixup=True, use_cutmix=True, mixup_alpha=0.4, cutmix_alpha=0.6, mixup_prob=0.3, cutmix_prob=0.2,
                      as_dict=True)
    assert augment.pipeline == "hflip(p=0.5),mixup(p=0.3,alpha=0.4,share=0..1),cutmix(p=0.2,alpha=0.6,share=0..1)"
    assert {"masks_b", "lambda"} <= set(augment(images, masks))
    assert Augment("hflip", use_mixup=False, mixup_alpha=0.4).pipeline == "hflip(p=0.5)"
    assert Augment(None, use_cutmix=True).pipeline == "cutmix(p=0.3,alpha=1,share=0..1)"
    with pytest.raises(TypeError, match="mixup_beta"):
        Augment("hflip", mixup_beta=1)
    with pytest.raises(ValueError, match="as_dict=True"):
        make(use_mixup=True)
    batch = next(iter(make(use_mixup=True, mixup_prob=1.0, mixup_alpha=1.0, as_dict=True)))
    other = next(iter(make(augment="mixup(p=1,alpha=1)", as_dict=True)))
    assert (batch["images"] == other["images"]).all() and (batch["lambda"] < 1).all()
    with pytest.raises(TypeError, match="give augment, too"):
        make(config="stoke.yaml", use_cutmix=True)


def test_shares_are_kornias():
    """lambda_val is the other's share; cut_size bounds the own one, and the box lies inside."""
    images = numpy.zeros((64, 20, 20, 3), numpy.uint8)
    images[::2] = 200
    masks = numpy.arange(64, dtype=numpy.uint8)[:, None, None] * numpy.ones((1, 20, 20), numpy.uint8)
    mixed = Augment([ops.RandomMixUpV2(lambda_val=(0.2, 0.2))], as_dict=True)(images, masks)
    assert numpy.allclose(mixed["lambda"], 0.8)
    spread = Augment([ops.RandomMixUpV2(lambda_val=(0.1, 0.4))], as_dict=True)(images, masks)["lambda"]
    assert spread.min() >= 0.6 and spread.max() <= 0.9 and spread.max() - spread.min() > 0.15
    _, cut = Augment([ops.RandomCutMixV2(cut_size=(0.2, 0.8), p=1.0)])(images, masks)
    own = numpy.array([(cut[i] == i).mean() for i in range(64)])
    assert own.min() >= 0.19 and own.max() <= 0.85  # sides are whole pixels
