# SPDX-License-Identifier: Apache-2.0
"""The scores of restored pictures torchmetrics gives; imported where it is installed."""
import numpy as np
import torch
from torchmetrics import __version__ as version  # noqa: F401  (for titles)
from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure


def scores(case):
    """Numbers in the order of restored_cases.NAMES, then PSNR and SSIM of each picture."""
    found, target = (torch.from_numpy(side.astype(np.float32)).permute(0, 3, 1, 2) for side in case.arrays())
    data_range = float(case.range)
    psnr, ssim = PeakSignalNoiseRatio(data_range=data_range), StructuralSimilarityIndexMeasure(data_range=data_range)
    each = PeakSignalNoiseRatio(data_range=data_range, dim=(1, 2, 3), reduction="none")
    each_ssim = StructuralSimilarityIndexMeasure(data_range=data_range, reduction="none")
    for metric in (psnr, ssim, each, each_ssim):
        for picture in range(case.pictures):  # as batches come
            metric.update(found[picture:picture + 1], target[picture:picture + 1])
    of_pictures = np.stack([np.atleast_1d(metric.compute().numpy()) for metric in (each, each_ssim)], axis=1).astype(np.float64)
    return np.array([float(psnr.compute()), float(ssim.compute()), of_pictures[:, 0].mean()]), of_pictures
