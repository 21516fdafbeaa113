# SPDX-License-Identifier: Apache-2.0
"""The cases of net_loss_cases.py as people compute them with torch, in float64."""
import numpy as np
import torch
from torch.nn import functional as F

import net_loss_cases as cases


def cross_entropy(logits, masks, weights, case):
    if logits.shape[1] > 1:
        return F.cross_entropy(logits, masks, weights, ignore_index=cases.IGNORE, label_smoothing=case.smoothing)
    # transformers' SegformerForSemanticSegmentation with one label; weights and smoothing as torch has them.
    valid = (masks >= 0) & (masks != cases.IGNORE)
    target = masks.to(logits.dtype) * (1 - case.smoothing) + case.smoothing / 2
    loss = torch.nn.BCEWithLogitsLoss(reduction="none", pos_weight=weights)(logits.squeeze(1), target)
    return (loss * valid).mean()


def dice(logits, masks, case):
    """segmentation_models_pytorch's DiceLoss, multiclass, or binary for one class."""
    batch, classes = logits.shape[:2]
    p = (logits.log_softmax(1) if classes > 1 else F.logsigmoid(logits)).exp().view(batch, classes, -1)
    flat = masks.view(batch, -1)
    counted = flat != cases.IGNORE
    if classes > 1:
        target = F.one_hot((flat * counted).long(), classes).permute(0, 2, 1) * counted.unsqueeze(1)
    else:
        target = (flat * counted).unsqueeze(1)
    p = p * counted.unsqueeze(1)
    inside = (p * target).sum((0, 2))
    extra, missed = p.sum((0, 2)) - inside, target.sum((0, 2)) - inside
    score = (inside + case.dice_smooth) / (inside + 0.5 * extra + 0.5 * missed + case.dice_smooth).clamp_min(1e-7)
    return ((1 - score) * (target.sum((0, 2)) > 0)).mean()


def focal(logits, masks, weights, case):
    """w (1 - p)^gamma (-log p), mean over the pixels that count; one class: p of what the mask says."""
    if logits.shape[1] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], 1)
        if weights is not None:
            weights = torch.cat([torch.ones_like(weights), weights])
    log_p = -F.cross_entropy(logits, masks, ignore_index=cases.IGNORE, reduction="none")
    counted = masks != cases.IGNORE
    weight = weights[masks * counted] if weights is not None else 1.0
    return (-weight * (1 - log_p.exp()).clamp_min(1e-300)**case.gamma * log_p)[counted].mean()


def loss_of(logits, masks, weights, case):
    if case.kind == cases.FOCAL:
        return focal(logits, masks, weights, case)
    loss = 0.0
    if case.kind != cases.DICE:
        loss = loss + cross_entropy(logits, masks, weights, case)
    if case.kind != cases.CE:
        loss = loss + dice(logits, masks, case)
    return loss


def loss(case):
    """The loss and d loss / d logits, flat, in the tool's order."""
    logits, masks, weights, masks_b = cases.loss_inputs(case)
    z = torch.from_numpy(logits).double().requires_grad_()
    weights = None if weights is None else torch.from_numpy(weights).double()
    up = F.interpolate(z.permute(0, 3, 1, 2), size=case.shape[4:], mode="bilinear", align_corners=False)
    value = loss_of(up, torch.from_numpy(masks), weights, case)
    if masks_b is not None:
        share = float(np.float32(case.mixed))
        value = share * value + (1 - share) * loss_of(up, torch.from_numpy(masks_b), weights, case)
    value.backward()
    return value.item(), z.grad.numpy().ravel()


def update(case):
    """Values and their average after all steps."""
    values, gradients = cases.update_inputs(case)
    parameter = torch.nn.Parameter(torch.from_numpy(values).double())
    if case.kind == "adamw":
        optimizer = torch.optim.AdamW([parameter], 0.003, (case.momentum, 0.98), 1e-8, case.decay)
    else:
        optimizer = torch.optim.SGD([parameter], 0.003, case.momentum, weight_decay=case.decay, nesterov=case.nesterov)
    average = parameter.detach().clone()
    for gradient in gradients:
        parameter.grad = torch.from_numpy(gradient).double()
        optimizer.step()
        average = 0.9 * average + 0.1 * parameter.detach()
    return parameter.detach().numpy(), average.numpy()
