# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Trainer with a loader of Stokehold in place of its own. The model comes from a config, nothing is downloaded.

    stoke synth data --count 64 --size 256
    python train_hugging_face.py data
"""
import sys
import tempfile

from transformers import SegformerConfig, SegformerForSemanticSegmentation, Trainer, TrainingArguments, set_seed

import stokehold


class FedTrainer(Trainer):
    """A Trainer whose training set is a loader already."""

    def get_train_dataloader(self):
        return self.train_dataset

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(pixel_values=inputs["images"], labels=inputs["masks"])
        return (outputs.loss, outputs) if return_outputs else outputs.loss


def run(loader, folder):
    trainer = FedTrainer(
        SegformerForSemanticSegmentation(SegformerConfig(num_labels=6)), train_dataset=loader, args=TrainingArguments(
            folder, max_steps=20, learning_rate=1e-3, lr_scheduler_type="constant", logging_steps=1, save_strategy="no",
            report_to="none", disable_tqdm=True))
    trainer.train()
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


if __name__ == "__main__":
    set_seed(0)
    with tempfile.TemporaryDirectory() as checkpoints:
        # Trainer wants dicts.
        losses = run(stokehold.Loader(sys.argv[1], as_dict=True, batch_size=4, image_size=64, augment="standard",
                                      normalize="imagenet", drop_last=True), checkpoints)
    print(f"{len(losses)} steps: loss {losses[0]:.3f} at first, {sum(losses[-5:]) / 5:.3f} over the last 5")
