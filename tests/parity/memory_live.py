# SPDX-License-Identifier: Apache-2.0
"""What transformers' SegFormer and the modules of examples/python keep for the backward pass, counted by saved-tensor hooks, against
the PyTorch column of `stoke estimate`: in fp32, and under the rules of CUDA's autocast.

    memory_live.py STOKE [MODEL,BATCH,SIDE,CLASSES]...

torch's own autocast for the processor has other lists than that for CUDA, so the rules are applied here, by the lists in torch's
documentation: products (linear, convolution, matmul) in 16 bits, norms, softmax and losses in 32, casts of weights made once, all
else as its input is. bfloat16 stands for float16, which processors do not compute with; both have 2 bytes. Skips where torch,
transformers or safetensors is not installed."""
import json
import os
import subprocess
import sys
import warnings

import parity

QUICK = ["b0,2,128,2", "b0,1,128,150", "b2,1,64,19", "resnet,2,64,5", "unet,2,64,4"]
LIMIT = 0.03  # of what is counted


def make_rules(torch):
    """The mode that does what autocast does on a card."""
    import torch.nn.functional as functional
    from torch.overrides import TorchFunctionMode
    short = {functional.linear, torch.conv2d, torch.matmul, torch.Tensor.matmul, torch.bmm}
    full = {functional.layer_norm, functional.softmax, torch.softmax, functional.cross_entropy}

    class Rules(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.weights = {}

        def cast(self, value, dtype):
            if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.dtype == dtype:
                return value
            if not value.is_leaf or not value.requires_grad:
                return value.to(dtype)
            if id(value) not in self.weights:
                self.weights[id(value)] = value.to(dtype)
            return self.weights[id(value)]

        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            dtype = torch.bfloat16 if function in short else torch.float32 if function in full else None
            if dtype is not None:
                with torch._C.DisableTorchFunction():
                    args = [self.cast(value, dtype) for value in args]
                    kwargs = {name: self.cast(value, dtype) for name, value in kwargs.items()}
            return function(*args, **kwargs)

    return Rules()


def segformer(name, classes, side):
    """A function that makes the module, one from module, pictures and masks to the loss, and the elements of a picture's gradients on
    their way: two maps of the decoder's width."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    from net_torch import SIZES
    hidden, depths, decoder = SIZES[name]
    config = SegformerConfig(hidden_sizes=hidden, depths=depths, decoder_hidden_size=decoder, num_labels=classes)
    return (lambda: SegformerForSemanticSegmentation(config),
            lambda model, images, masks: model(pixel_values=images, labels=masks).loss, 2 * decoder * (side // 4) ** 2)


def small(name, classes, side):
    """The same of a module of examples/python."""
    from torch.nn import functional
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python"))
    from load_networks import ResNet, UNet
    make = {"resnet": lambda: ResNet(base_channels=32, num_blocks=4, outputs=classes, scale=1),
            "unet": lambda: UNet(base_channels=16, outputs=classes)}[name]
    moving = {"resnet": 32, "unet": 2 * 16}[name] * side ** 2
    return make, lambda model, images, masks: functional.cross_entropy(model(images), masks), moving


def count_saved(torch, model, loss_of, images, masks, rules):
    """Bytes of all tensors that wait for the backward pass, each storage once; weights and their copies are not among them."""
    weights = {weight.data_ptr() for weight in model.parameters()}
    saved = {}

    def pack(tensor):
        storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
        saved[storage.data_ptr()] = (storage.nbytes(), tensor)  # held, so that its address is nobody else's
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        if rules is None:
            loss = loss_of(model, images, masks)
        else:
            with rules:
                loss = loss_of(model, images, masks)
            weights |= {copy.data_ptr() for copy in rules.weights.values()}
    del loss
    return sum(size for address, (size, _) in saved.items() if address not in weights)


def estimated(stoke, model, batch, side, classes, precision, moving):
    """The part of the estimate that hooks see: without gradients on their way (those of maps, and of the logits)."""
    command = [stoke, "estimate", "--model", model, "--batch", str(batch), "--size", str(side), "--classes", str(classes),
               "--precision", precision, "--prefetch", "0", "--json"]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["torch"]["bytes"]
    width = 4 if precision == "fp32" else 2
    return found["activations"] - width * moving * batch + found["logits"] // 2 + found["batches"]


def main():
    missing = parity.need("torch", "transformers", "safetensors")
    if missing:
        print(f"1..0 # SKIP {missing} is not installed")
        return
    warnings.simplefilter("ignore")
    import torch
    tap = parity.Tap()
    for case in sys.argv[2:] or QUICK:
        name, batch, side, classes = (int(word) if word.isdigit() else word for word in case.split(","))
        make, loss_of, moving = (small if name in ("resnet", "unet") else segformer)(name, classes, side)
        torch.manual_seed(1)
        images, masks = torch.randn(batch, 3, side, side), torch.randint(0, classes, (batch, side, side))
        for precision in ("fp32", "fp16"):
            rules = make_rules(torch) if precision == "fp16" else None
            counted = count_saved(torch, make().train(), loss_of, images, masks, rules)
            ours = estimated(sys.argv[1], name, batch, side, classes, precision, moving)
            tap.ok(abs(ours / counted - 1) <= LIMIT, f"{case} {'autocast' if precision == 'fp16' else precision}: "
                   f"{counted / 2**20:.1f} MiB counted, {ours / 2**20:.1f} estimated, {100 * (ours / counted - 1):+.1f} %")
    tap.done()


if __name__ == "__main__":
    main()
