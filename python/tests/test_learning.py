# SPDX-License-Identifier: Apache-2.0
"""find_lr and benchmark: any torch module, and all of it as it was afterwards; what a config says about a trial's steps."""
import sys

import pytest

import stokehold
from stokehold._trial import Recipe


def bits(torch, model, optimizer):
    """Everything a training depends on, as bytes."""
    def raw(thing):
        if isinstance(thing, torch.Tensor):
            return thing.detach().cpu().contiguous().numpy().tobytes()
        if isinstance(thing, dict):
            return {name: raw(value) for name, value in thing.items()}
        return [raw(item) for item in thing] if isinstance(thing, (list, tuple)) else thing

    return raw([dict(model.named_parameters()), dict(model.named_buffers()), [p.grad for p in model.parameters()],
                [m.training for m in model.modules()], optimizer.state_dict(), torch.get_rng_state()])


@pytest.fixture
def net(torch):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Dropout(0.1),
                                torch.nn.Conv2d(8, 6, 1))
    model[0].register_buffer("seen", torch.zeros(1), persistent=False)  # no checkpoint has it
    model[3].eval()
    return model


def cross_entropy(output, target):
    import torch
    return torch.nn.functional.cross_entropy(output, target, ignore_index=255)


def test_a_rate_and_the_same_bits(torch, net, make):
    loader = make(output="torch", classes=6)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4, weight_decay=0.1)
    for images, masks in loader:  # a state to be lost, and gradients
        cross_entropy(net(images), masks).backward()
        optimizer.step()
        break
    del images, masks
    before, place = bits(torch, net, optimizer), loader.state_dict()
    curve = stokehold.find_lr(net, loader, loss=cross_entropy, optimizer=optimizer, low=1e-4, high=10, steps=120)
    assert bits(torch, net, optimizer) == before and loader.state_dict() == place
    assert curve.end in ("whole", "rose", "not finite") and len(curve.lrs) == len(curve.losses) == len(curve.smooth) > 20
    assert 1e-4 < curve.suggestion() < 10 and curve.half <= curve.floor <= curve.suggestion() <= curve.lowest
    assert f"{curve.suggested:.2g}" in str(curve) and curve.confidence in ("low", "medium", "high")
    assert "<svg" in curve.svg and "suggested" in curve.svg and curve._repr_svg_() == curve.svg
    # what the library says of the very same curve
    judged = stokehold._stoke.lr_judge(curve.lrs, curve.losses, curve.end, curve.lrs[-1])
    assert judged["suggested"] == curve.suggested and judged["smooth"] == curve.smooth


def test_put_back_after_a_fault(torch, net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    data = [(torch.rand(2, 3, 8, 8), None)]
    before = bits(torch, net, optimizer)

    def broken(output, target):
        if broken.left == 0:
            raise KeyError("mine")
        broken.left -= 1
        return output.square().mean()

    broken.left = 3
    with pytest.raises(KeyError, match="mine"):
        stokehold.find_lr(net, data, loss=broken, optimizer=optimizer)
    assert bits(torch, net, optimizer) == before


def test_plot_without_matplotlib_and_with(torch, tmp_path, monkeypatch, capsys):
    line = torch.nn.Linear(4, 1)
    torch.manual_seed(0)
    data = [(torch.randn(16, 4), torch.zeros(16, 1)) for _ in range(4)]
    curve = stokehold.find_lr(line, data, loss=torch.nn.functional.mse_loss, optimizer="sgd", steps=100, high=100)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    text = curve.plot(suggest=True, path=tmp_path / "lr.svg")
    assert text in capsys.readouterr().out and "learning rate" in text
    assert (tmp_path / "lr.svg").read_text().endswith("</svg>\n")
    monkeypatch.undo()
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    figure = curve.plot(suggest=True)
    assert figure.axes[0].get_xscale() == "log" and len(figure.axes[0].lines) == 3
    pyplot.close(figure)


def test_what_find_lr_refuses(torch):
    model = torch.nn.Linear(2, 1)
    data = [(torch.zeros(1, 2), torch.zeros(1, 1))]
    for wrong, words in (({"low": 1, "high": 2}, "high ten times low"), ({"steps": 10}, "steps=10"), ({"precision": "fp8"}, "fp8"),
                         ({"optimizer": "adamix"}, "adamix")):
        with pytest.raises(ValueError, match=words):
            stokehold.find_lr(model, data, loss=torch.nn.functional.mse_loss, **wrong)
    with pytest.raises(TypeError, match="which loss"):
        stokehold.find_lr(model, data)
    with pytest.raises(ValueError, match="no batch"):
        stokehold.find_lr(model, [], loss=torch.nn.functional.mse_loss)


def test_benchmark(torch, net, make):
    loader = make(output="torch", classes=6)
    optimizer = torch.optim.AdamW(net.parameters())
    before = bits(torch, net, optimizer)
    result = stokehold.benchmark(net, loader, num_steps=8, warmup=2, loss=cross_entropy, optimizer=optimizer)
    assert bits(torch, net, optimizer) == before
    assert result.steps == 8 and 26 <= result.images <= 32 and result.images_per_s > 0 and 0 <= result.wait_share <= 1
    assert result.low_ms <= result.ms_per_batch <= result.high_ms and result.device == "cpu" and result.peak_memory is None
    table = str(result)
    assert "images/s" in table and "waiting for data" in table and "8 after 2 to warm up" in table
    assert stokehold.benchmark(net, [torch.rand(4, 3, 8, 8)], num_steps=1, warmup=0).images == 4
    with pytest.raises(ValueError, match="num_steps"):
        stokehold.benchmark(net, loader, num_steps=0)


# ---- what a config says about steps


class Flags:
    USE_AMP = True
    OPTIMIZER = "SGD"
    ACCUMULATION_STEPS = 4


@pytest.mark.parametrize("config, optimizer, precision, accumulate", [
    (None, "adamw", None, 1),
    ({"name": "sgd"}, "adamw", None, 1),  # of the experiment
    ({"optimizer": {"name": "SGD"}}, "sgd", None, 1),
    ({"training": {"optimizer": "Adam", "use_mixed_precision": True, "accumulate_grad_batches": 4}}, "adam", "float16", 4),
    ({"trainer": {"precision": "bf16-mixed", "accumulate_grad_batches": 2}}, "adamw", "bfloat16", 2),
    ({"trainer": {"precision": 32}}, "adamw", None, 1),
    ({"precision": "16-mixed", "use_mixed_precision": False}, "adamw", "float16", 1),
    ({"fp16": True, "gradient_accumulation_steps": 8, "optim": "adamw_torch"}, "adamw_torch", "float16", 8),
    ({"bf16": True, "fp16": False}, "adamw", "bfloat16", 1),
    ({"mixed_precision": "bf16"}, "adamw", "bfloat16", 1),
    ({"mixed_precision": "no"}, "adamw", None, 1),
    ({"optimizer": {"_target_": "torch.optim.RMSprop"}}, "rmsprop", None, 1),
    (Flags, "sgd", "float16", 4),
])
def test_recipes(config, optimizer, precision, accumulate):
    recipe = Recipe.of(config, None, 3)
    assert (recipe.optimizer, recipe.precision, recipe.accumulate) == (optimizer, precision, accumulate)


def test_a_recipe_from_a_file(tmp_path):
    file = tmp_path / "train.yaml"
    file.write_text("name: mine\noptimizer: {name: SGD, lr: 0.1}\ntrainer:\n  precision: 16-mixed\n  accumulate_grad_batches: 4\n")
    recipe = stokehold.BatchSizeOptimizer(None, file).recipe
    assert str(recipe) == "sgd, float16, 4 batches a step"
    assert Recipe.of(str(file), None, 3) == Recipe.of(file, None, 3)
    source = tmp_path / "config.py"
    source.write_text('class TrainingConfig:\n    OPTIMIZER = "SGD"\n    USE_AMP = True\n    ACCUMULATION_STEPS = 2\n')
    assert str(Recipe.of(source, None, 3)) == "sgd, float16, 2 batches a step"
    with pytest.raises(FileNotFoundError):
        stokehold.BatchSizeOptimizer(None, tmp_path / "none.yaml")
    file.write_text("a: [1")
    with pytest.raises(stokehold.InvalidError, match="train.yaml"):
        stokehold.BatchSizeOptimizer(None, file)


def test_the_optimizer_is_the_one_that_was_asked_for(torch):
    from stokehold._trial import _make_optimizer
    weights = [torch.zeros(1, requires_grad=True)]
    for name, kind in (("sgd", torch.optim.SGD), ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW), ("lion", torch.optim.AdamW),
                       ("adamw_torch", torch.optim.AdamW), ("rmsprop", torch.optim.RMSprop)):
        assert type(_make_optimizer(torch, name, weights)) is kind


def test_the_limit_that_was_met(torch):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 2, 1))
    config = {"optimizer": {"name": "SGD"}, "precision": "bf16", "accumulate_grad_batches": 2}
    loss = lambda output, target: output.square().mean()  # noqa: E731: cannot be sent: forked, which is quicker
    batch, stats = stokehold.BatchSizeOptimizer(model, config, loss=loss, steps=3, largest=2, memory=2000 << 20) \
        .find_optimal_batch_size(torch.zeros(1, 3, 16, 16), target_gpu_util=85.0)
    assert stats["recipe"] == "sgd, bfloat16, 2 batches a step" and "--" not in stats["why"]
    assert stats["limit"] == "largest=2: no more were to be tried, and they fit"
    limits = stokehold.BatchSizeOptimizer(model)._limit
    assert limits({"smallest_oom": 96, "largest_ok": 64}) == "memory: 96 did not fit"
    assert limits({"smallest_oom": 0, "largest_ok": 8, "bound": "memory", "too_busy": True, "largest_fit": 8}).startswith("the last one")
    assert limits({"smallest_oom": 0, "largest_ok": 64, "bound": "throughput", "too_busy": False}) == "the last one tried: 64 fit, and more were not tried"


# ---- errors


def test_errors_are_about_arguments():
    with pytest.raises(stokehold.InvalidError) as caught:
        stokehold.recommend("GTX 480")
    assert not isinstance(caught.value, (stokehold.BadSampleError, FileNotFoundError)) and "--" not in str(caught.value)
    with pytest.raises(stokehold.InvalidError, match="b9"):
        stokehold.estimate("b9")
    error = stokehold._errors.from_status("no row (--gpu): name one by --gpu NAME, `stoke recommend --gpu NAME`, --batch 4, --gpus all", -3, "invalid")
    assert str(error) == "no row (gpu=): name one by gpu= NAME, `stoke recommend --gpu NAME`, batch_size= 4, --gpus all"
