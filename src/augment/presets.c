/* SPDX-License-Identifier: Apache-2.0
 *
 * Presets: lists with names. Settings that equal an op's default are spelt out where the preset is meant to
 * stay as it is when a default changes.
 */
#include "src/augment/pipeline.h"

#include <string.h>

static const stoke_preset_info presets[] = {
    { "none", "Stretch the sample to the output", "" },
    { "light", "Mirror half of the samples", "hflip(p=0.5)" },
    { "crop", "A window of the source at its own scale, mirrored or not", "random_crop,hflip(p=0.5)" },
    { "standard", "The usual mix for photographs: mirror, turn, zoom, colours, a little blur and noise",
      "hflip(p=0.5),rotate(p=0.6,degrees=20),scale(p=0.6,factor=0.8..1.2),"
      "color_jitter(p=0.5,brightness=0.3,contrast=0.2,saturation=0.2,hue=0.1),"
      "gaussian_blur(p=0.3,kernel=3,sigma=0.1..2),gaussian_noise(p=0.3,std=0.03)" },
    { "strong", "For long training on few samples: parts of random size, shear, gamma, erased boxes",
      "random_resized_crop(scale=0.25..1),hflip(p=0.5),"
      "affine(p=0.7,degrees=20,scale=0.9..1.4,translate_x=0.05,translate_y=0.05,shear=8,shear_y=4),"
      "color_jitter(p=0.8,brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1),gamma(p=0.3,gamma=0.7..1.5),"
      "gaussian_blur(p=0.3,kernel=5,sigma=0.1..2),gaussian_noise(p=0.3,std=0.01..0.06),"
      "erasing(p=0.25,scale=0.02..0.15,mask=ignore)" },
    { "face", "Face parsing with the 19 classes of CelebAMask-HQ: left and right change places in a mirror",
      "hflip(p=0.5,swap=2-3,4-5,7-8),rotate(p=0.6,degrees=10),scale(p=0.6,factor=0.9..1.2),"
      "color_jitter(p=0.5,brightness=0.3,contrast=0.2,saturation=0.2,hue=0.05),"
      "gaussian_blur(p=0.3,kernel=3,sigma=0.1..2),gaussian_noise(p=0.3,std=0.03)" },
    { "medical", "After nnU-Net: windows that find the foreground, turned any way, gray values moved, no hue",
      "foreground_crop(p=0.33,background=0),hflip(p=0.5),vflip(p=0.5),rotate(p=0.2,degrees=180),"
      "scale(p=0.2,factor=0.7..1.4),elastic(p=0.2,alpha=0..8,sigma=16..32),"
      "gaussian_noise(p=0.1,std=0..0.1,gray=true),gaussian_blur(p=0.2,kernel=5,sigma=0.5..1),"
      "brightness(p=0.15,factor=0.75..1.25),contrast(p=0.15,factor=0.75..1.25),gamma(p=0.3,gamma=0.7..1.5)" },
};

const char *stk_preset_find(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(presets[i].name, name) == 0) return presets[i].list;
    return NULL;
}

int stoke_preset_at(size_t index, stoke_preset_info *info)
{
    if (index >= sizeof presets / sizeof *presets) return 0;
    *info = presets[index];
    return 1;
}
