# SPDX-License-Identifier: Apache-2.0
"""Weights in and out against the transformers package, bit for bit: `net_pretrained_live.py TOOL`.

In: what save_pretrained writes (whole, in shards, 16-bit, encoder alone) and the names newer versions use in memory.
Out: from_pretrained of a folder of ours finds no key missing or unexpected, and equal tensors.
Skips with a word when torch, transformers or safetensors is not installed.
"""
import json
import os
import subprocess
import sys
import tempfile

import parity

SIZES = {
    "b0": dict(hidden_sizes=[32, 64, 160, 256], depths=[2, 2, 2, 2], decoder_hidden_size=256),
    "b2": dict(hidden_sizes=[64, 128, 320, 512], depths=[3, 4, 6, 3], decoder_hidden_size=768),
}

def make(transformers, torch, size, classes, dtype, seed):
    """A network with values in every tensor: fresh ones have zeros and ones that would hide a mix-up."""
    torch.manual_seed(seed)
    config = transformers.SegformerConfig(num_labels=classes, **SIZES[size])
    model = transformers.SegformerForSemanticSegmentation(config)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.dtype == torch.int64:
                tensor.fill_(1234567)
            else:
                tensor.copy_(torch.randn_like(tensor) * 0.1 + 0.5)
    return model.to(dtype)


def run(tool, *arguments):
    done = subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip().split("\n")


def same(torch, ours, theirs, widen=True):
    """Every tensor of `theirs` in `ours` with the same bits (16-bit ones after the exact step to 32). First difference."""
    if sorted(ours) != sorted(theirs):
        return f"keys differ: {sorted(set(ours) ^ set(theirs))[:3]}"
    for name, tensor in theirs.items():
        wanted = tensor.float() if widen and tensor.is_floating_point() else tensor
        if ours[name].dtype != wanted.dtype or ours[name].shape != wanted.shape or not torch.equal(ours[name], wanted):
            return name
    return ""


def check_load(tap, tool, torch, load_file, path, theirs, what, wanted_line):
    with tempfile.TemporaryDirectory() as out:
        code, lines = run(tool, "load", path, 0, 1, out)
        wrong = lines[0] if code else same(torch, load_file(f"{out}/model.safetensors"), theirs)
        tap.ok(not wrong and lines == [wanted_line], f"{what}: bit-equal ({len(theirs)} tensors) {wrong or ''.join(lines[1:])}")


def check_kinds(tap, tool, torch, transformers, load_file, save_file):
    for size, classes, dtype, shards, what in (
            ("b0", 19, torch.float32, None, "b0 as save_pretrained writes it"),
            ("b2", 150, torch.float32, "9MB", "b2 in shards"),
            ("b0", 1, torch.float16, None, "b0 in float16"),
            ("b0", 3, torch.bfloat16, None, "b0 in bfloat16"),
            ("b0", 2, torch.float64, None, "b0 in float64")):
        model = make(transformers, torch, size, classes, dtype, 7)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder, **({"max_shard_size": shards} if shards else {}))
            files = [f for f in os.listdir(folder) if f.endswith(".safetensors")]
            theirs = {k: v for f in files for k, v in load_file(f"{folder}/{f}").items()}
            kind = f"{what} ({len(files)} file{'s' if len(files) > 1 else ''})"
            if (len(files) > 1) != bool(shards):
                tap.ok(False, f"{kind}: not the number of files that was meant")
            check_load(tap, tool, torch, load_file, folder, theirs, kind, f"{size} {classes} 1234567")
            if not shards:
                check_load(tap, tool, torch, load_file, f"{folder}/model.safetensors", theirs, f"{what}, the bare file",
                           f"{size} {classes} 1234567")
            if what == "b0 as save_pretrained writes it":
                renamed = {k: v.contiguous() for k, v in model.state_dict().items()}
                if set(renamed) == set(theirs):
                    tap.skip("b0 by new names", f"transformers {transformers.__version__} still has the old ones")
                    continue
                save_file(renamed, f"{folder}/new.safetensors", metadata={"format": "pt"})
                check_load(tap, tool, torch, load_file, f"{folder}/new.safetensors", theirs, "b0 by the names in memory",
                           f"{size} {classes} 1234567")


def check_bytes(tap, tool, torch, transformers):
    """Not asked for by any reader, but the simplest proof that nothing in the file is out of the ordinary."""
    with tempfile.TemporaryDirectory() as theirs, tempfile.TemporaryDirectory() as ours:
        make(transformers, torch, "b0", 19, torch.float32, 3).save_pretrained(theirs)
        run(tool, "load", theirs, 0, 1, ours)
        files = [open(f"{folder}/model.safetensors", "rb").read() for folder in (theirs, ours)]
        tap.ok(files[0] == files[1], f"model.safetensors is byte for byte what transformers wrote ({len(files[0])} bytes)")


def check_encoder(tap, tool, torch, transformers, load_file):
    config = transformers.SegformerConfig(num_labels=1000, reshape_last_stage=False, **SIZES["b0"])
    for kind, model in (("mit-b0", transformers.SegformerForImageClassification(config)),
                        ("a SegformerModel", transformers.SegformerModel(config))):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
            model.save_pretrained(folder)
            theirs = load_file(f"{folder}/model.safetensors")
            code, lines = run(tool, "load", folder, 7, 1, out)
            ours = load_file(f"{out}/model.safetensors") if not code else {}
            encoder = {k if k.startswith("segformer.") else f"segformer.{k}": v for k, v in theirs.items()
                       if not k.startswith("classifier.")}
            kept = {k: v for k, v in ours.items() if k.startswith("segformer.")}
            wrong = same(torch, kept, encoder) or lines[0] != "b0 7 0" or "encoder alone" not in lines[1]
            tap.ok(not wrong, f"{kind}: encoder bit-equal ({len(encoder)} tensors), head initialised; said: "
                   f"{'; '.join(lines[1:]).replace(folder, 'FOLDER')}")


def check_classes(tap, tool, torch, transformers, load_file):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
        make(transformers, torch, "b0", 150, torch.float32, 5).save_pretrained(folder)
        theirs = load_file(f"{folder}/model.safetensors")
        code, lines = run(tool, "load", folder, 19, 1, out)
        ours = load_file(f"{out}/model.safetensors") if not code else {"decode_head.classifier.weight": torch.zeros(1)}
        fresh = ours.pop("decode_head.classifier.weight"), ours.pop("decode_head.classifier.bias", None)
        rest = {k: v for k, v in theirs.items() if not k.startswith("decode_head.classifier.")}
        good = not code and fresh[0].shape == (19, 256, 1, 1) and not fresh[1].any() and not same(torch, ours, rest)
        tap.ok(good and abs(float(fresh[0].std()) - 0.02) < 0.002,
               f"150 classes to 19: the rest bit-equal, said: {'; '.join(lines[1:])}")


def check_out(tap, tool, torch, transformers, load_file):
    for size, classes in (("b0", 19), ("b0", 1), ("b2", 150)):
        with tempfile.TemporaryDirectory() as folder:
            run(tool, "make", size, classes, 11, folder)
            model, info = transformers.SegformerForSemanticSegmentation.from_pretrained(folder, output_loading_info=True)
            complaints = {k: v for k, v in info.items() if v}
            with tempfile.TemporaryDirectory() as again:
                model.save_pretrained(again)
                wrong = same(torch, load_file(f"{folder}/model.safetensors"), load_file(f"{again}/model.safetensors"))
            config = transformers.AutoConfig.from_pretrained(folder)
            good = not complaints and not wrong and config.num_labels == classes and model.dtype == torch.float32
            tap.ok(good, f"from_pretrained of our {size} with {classes} classes: nothing missing or unexpected, tensors "
                   f"bit-equal {complaints or wrong or ''}")
            theirs = transformers.SegformerConfig(num_labels=classes, **SIZES[size]).to_dict()
            # The type of the weights stands in every saved configuration, in none that was only made: "dtype", before 4.56
            # "torch_dtype".
            differ = [k for k, v in theirs.items() if config.to_dict().get(k) != v and k not in
                      ("architectures", "dtype", "torch_dtype", "transformers_version", "_name_or_path")]
            tap.ok(not differ, f"config.json of {size} says what SegformerConfig does {differ}")
            processor = transformers.AutoImageProcessor.from_pretrained(folder)
            plain = transformers.SegformerImageProcessor()
            keys = ("do_resize", "size", "do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std",
                    "do_reduce_labels")
            differ = [k for k in keys if getattr(processor, k, None) != getattr(plain, k, None)]
            tap.ok(not [k for k in differ if k != "do_reduce_labels" or getattr(processor, k)],
                   f"preprocessor_config.json gives {type(processor).__name__} with its defaults {differ}")


def check_first_values(tap, tool, torch, transformers, load_file):
    """The kind of values Hugging Face's _init_weights draws: deviation and mean of each tensor, ones and zeros."""
    with tempfile.TemporaryDirectory() as ours_folder, tempfile.TemporaryDirectory() as theirs_folder:
        run(tool, "make", "b0", 19, 5, ours_folder)
        transformers.SegformerForSemanticSegmentation(
            transformers.SegformerConfig(num_labels=19, **SIZES["b0"])).save_pretrained(theirs_folder)
        ours, theirs = (load_file(f"{f}/model.safetensors") for f in (ours_folder, theirs_folder))
        wrong = []
        for name, tensor in theirs.items():
            a, b = ours[name].double().flatten(), tensor.double().flatten()
            if tensor.is_floating_point() and b.numel() > 1 and b.std() > 0:
                n = b.numel() ** 0.5  # five deviations of mean and deviation of that many draws
                if abs(a.mean()) > 0.1 / n or abs(a.std() - 0.02) > 0.075 / n or abs(b.std() - 0.02) > 0.075 / n:
                    wrong.append(name)
            elif not torch.equal(a, b):
                wrong.append(name)
        tap.ok(not wrong, f"first values of {len(theirs)} tensors are drawn as transformers draws them {wrong[:3]}")


def check_refused(tap, tool, torch, transformers):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
        make(transformers, torch, "b0", 19, torch.float32, 3).save_pretrained(folder)
        config = json.load(open(f"{folder}/config.json"))
        for key, value in (("hidden_act", "relu"), ("sr_ratios", [8, 4, 2, 2]), ("mlp_ratios", [4, 4, 4, 8]),
                           ("num_attention_heads", [1, 2, 4, 8]), ("hidden_dropout_prob", 0.1)):
            with open(f"{folder}/config.json", "w") as f:
                json.dump({**config, key: value}, f)
            code, lines = run(tool, "load", folder, 0, 1, out)
            told = lines[0].split("config.json: ")[-1]
            tap.ok(code == 1 and f'"{key}"' in told, f"{key} {value} is refused: {told}")


def main():
    tap = parity.Tap()
    missing = parity.need("torch", "transformers", "safetensors")
    if missing:
        tap.skip("weights against transformers", f"{missing} is not installed")
        tap.done()
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    tool = sys.argv[1]
    check_kinds(tap, tool, torch, transformers, load_file, save_file)
    check_bytes(tap, tool, torch, transformers)
    check_encoder(tap, tool, torch, transformers, load_file)
    check_classes(tap, tool, torch, transformers, load_file)
    check_out(tap, tool, torch, transformers, load_file)
    check_first_values(tap, tool, torch, transformers, load_file)
    check_refused(tap, tool, torch, transformers)
    tap.done()


main()
