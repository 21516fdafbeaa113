/* SPDX-License-Identifier: Apache-2.0
 *
 * The option table of the data path: names, types, defaults, ranges and the words of `--help`.
 * The order of every `choices` text is the order of the enum it fills; test_dataset checks the pairs.
 */
#include <stoke/tools/data.h>

#include <stddef.h>

#include <stoke/image.h>

#define FIELD(name) .offset = offsetof(stoke_data_params, name)

/* clang-format off: one entry, one paragraph */
static const stoke_option table[] = {
    /* where samples come from */
    { "data", STOKE_OPT_STRING, FIELD(data), .argument = "DIR|TAR",
      .help = "Root of a set with the usual folder names (images/masks, image/label, train/trainannot, "
              "img/ann, JPEGImages/SegmentationClass, ...; input/target, noisy/clean, LR/HR, ... for --task "
              "restore), or a folder of images without masks, or tar "
              "shards: a folder of them, a file, or a pattern such as train-{000000..000009}.tar" },
    { "images", STOKE_OPT_STRING, FIELD(images), .argument = "DIR",
      .help = "Folder of images; folders below it are read too" },
    { "masks", STOKE_OPT_STRING, FIELD(masks), .argument = "DIR",
      .help = "Folder of masks for --images; left out, every pixel is class 0. May be the images folder when "
              "masks "
              "have a suffix" },
    { "list", STOKE_OPT_STRING, FIELD(list), .argument = "FILE",
      .help =
          "CSV file with an image path and a mask path (or, with --task restore, a target path) per line, "
          "relative to the folder of the file" },
    { "image_suffix", STOKE_OPT_STRING, FIELD(image_suffix), .default_text = "auto", .argument = "TEXT",
      .help = "What image names have at the end and mask names do not; auto is none, or _leftImg8bit in a "
              "set with leftImg8bit/gtFine folders" },
    { "mask_suffix", STOKE_OPT_STRING, FIELD(mask_suffix), .default_text = "auto", .argument = "TEXT",
      .help =
          "What mask names have at the end and image names do not; auto takes the very same stem, else "
          "_mask _gt _label _seg and the like; an empty text asks for the same stem. Of targets the same: "
          "auto tries _gt _target _clean _sharp _hr and the like" },
    { "split", STOKE_OPT_CHOICE, FIELD(split), .default_text = "all", .choices = "all|train|val|test",
      .help = "Which part of the set; a set with its own train and val folders is split by them, others by "
              "--val-split; test is the set's own test folder, which no other part has" },
    { "val_split", STOKE_OPT_REAL, FIELD(val_split), .default_text = "0", .min = 0, .max = 1,
      .argument = "PART",
      .help = "Share of the samples that belong to val, chosen by a hash of the name, so that adding files "
              "moves no other file. Must be 0 when the set has its own val folder; where it has none, `stoke "
              "train` takes about a fifth for 0" },
    { "split_seed", STOKE_OPT_INT, FIELD(split_seed), .default_text = "0", .argument = "N",
      .help = "Key of the hash of --val-split; apart from --seed, so that another training seed keeps the "
              "split" },
    /* pairs of picture and picture */
    { "task", STOKE_OPT_CHOICE, FIELD(task), .default_text = "auto", .choices = "auto|segment|restore",
      .help =
          "What is learned from an image: segment its mask, restore another picture that it should become "
          "(denoise, deblur, enhance, enlarge); auto is restore where --targets is given or the set has "
          "such folders, else segment" },
    { "targets", STOKE_OPT_STRING, FIELD(targets), .argument = "DIR",
      .help = "Folder of the pictures that those in --images should become, paired by name as masks are" },
    { "scale", STOKE_OPT_INT, FIELD(scale), .default_text = "1", .min = 1, .max = 4, .argument = "N",
      .help = "Targets are N times as high and wide as their images; --size is that of the images. Of the "
              "networks resnet alone makes pictures larger" },
    { "photometric", STOKE_OPT_CHOICE, FIELD(photometric), .default_text = "input", .choices = "input|both",
      .help =
          "Whether colour ops of --augment change the image only, or the target too, with the same numbers; "
          "geometry is always that of both" },
    /* what masks mean */
    { "classes", STOKE_OPT_INT, FIELD(classes), .default_text = "0", .min = 0, .max = 65536, .argument = "N",
      .help = "Number of classes; mask values from N on are errors. 0 does not check; "
              "`stoke train` counts them in the masks then" },
    { "ignore_index", STOKE_OPT_INT, FIELD(ignore_index), .default_text = "255", .min = -1, .max = 65535,
      .argument = "N", .help = "Class id of pixels without a class, always accepted in masks; -1 for none" },
    { "label_map", STOKE_OPT_STRING, FIELD(label_map), .default_text = "identity", .argument = "MAP",
      .choices = "pairs",
      .help = "From mask values to classes: identity, a list such as 0:0,255:1 (*:ignore for the rest, * "
              "alone leaves the rest as it is: 11:255,*), or a file of colours with a line `R G B [id] "
              "[name]` per class" },
    { "names", STOKE_OPT_STRING, FIELD(names), .argument = "LIST|FILE", .choices = "pairs",
      .help =
          "Names of the classes, for tables, pictures and config.json: a list (sky,road,car or 0:sky,7:car), "
          "a text file with a name per line, or a YAML file with them under its key names. Left out, "
          "classes.txt, names.txt, labels.txt or data.yaml beside the set is taken if it is there" },
    /* decoding */
    { "decode", STOKE_OPT_CHOICE, FIELD(decode), .default_text = "exact", .choices = "exact|fast",
      .help = "exact gives Pillow's pixels; fast lets JPEG shrink while decoding" },
    { "orientation", STOKE_OPT_CHOICE, FIELD(orientation), .default_text = "auto",
      .choices = "ignore|apply|auto",
      .help = "Whether the orientation stored in an image (EXIF) turns it; apply turns masks by their own. "
              "auto turns an image whose mask has the size of the turned one, takes all others as they are "
              "stored (those whose mask cannot tell as the rest of the set), and turns upright what `stoke "
              "predict` labels, and both pictures of a pair to restore" },
    { "alpha", STOKE_OPT_CHOICE, FIELD(alpha), .default_text = "drop", .choices = "drop|composite",
      .help = "Transparency of images is dropped, or composited over black" },
    { "window", STOKE_OPT_STRING, FIELD(window), .default_text = "none", .argument = "LO:HI",
      .help = "16-bit images: values from LO to HI become the full range; pLO:pHI are percentiles of each "
              "image; none takes the range of 16 bits" },
    { "max_pixels", STOKE_OPT_INT, FIELD(max_pixels), .default_text = "178956970", .min = 1,
      .max = 4294967296.0, .argument = "N",
      .help = "Larger files are refused before memory is taken; the default is Pillow's limit" },
    /* geometry and values of a batch */
    { "size", STOKE_OPT_SIZE, FIELD(size), .argument = "N|HxW",
      .help = "Height and width of a batch's images; left out, those of the first sample" },
    { "augment", STOKE_OPT_STRING, FIELD(augment), .default_text = "none", .argument = "PRESET|LIST|FILE",
      .help = "What happens to a sample: a preset (none, light, crop, standard, strong, face, medical), a "
              "list of ops such as random_crop,hflip(p=0.3), or a YAML file with such a list under its key "
              "augment; see `stoke ops`" },
    { "dtype", STOKE_OPT_CHOICE, FIELD(dtype), .default_text = "f32", .choices = "f32|f16|bf16|u8",
      .help = "Element type of images in a batch" },
    { "mask_dtype", STOKE_OPT_CHOICE, FIELD(mask_dtype), .default_text = "auto",
      .choices = "auto|u8|u16|i32|i64",
      .help = "Element type of masks in a batch; auto is u8, or u16 when class ids need it" },
    { "layout", STOKE_OPT_CHOICE, FIELD(layout), .default_text = "chw", .choices = "chw|hwc",
      .help = "Order of channels, height and width in an image; channels are always three, equal ones for a "
              "gray image" },
    { "normalize", STOKE_OPT_CHOICE, FIELD(normalize), .default_text = "unit",
      .choices = "unit|imagenet|none",
      .help = "unit gives [0,1], imagenet subtracts mean and divides by deviation of ImageNet, none gives "
              "0..255; dtype u8 is never scaled" },
    { "batch", STOKE_OPT_AUTO_INT, FIELD(batch), .default_text = "8", .min = 1, .max = 1048576,
      .argument = "N|auto",
      .help = "Samples per batch; auto is what fits into memory for training, up to 8, and 8 elsewhere" },
    /* order */
    { "order", STOKE_OPT_CHOICE, FIELD(order), .default_text = "shuffle",
      .choices = "shuffle|sequential|weighted|balanced",
      .help = "shuffle gives each sample once per epoch; weighted draws by --weights; balanced draws samples "
              "with rare classes more often (reads all masks first)" },
    { "weights", STOKE_OPT_STRING, FIELD(weights), .argument = "FILE",
      .help = "CSV file with a sample's name and its weight per line, for --order weighted" },
    { "seed", STOKE_OPT_INT, FIELD(seed), .default_text = "0", .argument = "N",
      .help = "Key of every random choice: order, substitutes, augmentation" },
    { "epoch", STOKE_OPT_INT, FIELD(epoch), .default_text = "0", .min = 0, .max = 4294967295.0,
      .argument = "N", .help = "Epoch to start with" },
    { "rank", STOKE_OPT_INT, FIELD(rank), .default_text = "0", .min = 0, .max = 1048575, .argument = "N",
      .help = "Which of --world processes this is" },
    { "world", STOKE_OPT_INT, FIELD(world), .default_text = "1", .min = 1, .max = 1048576, .argument = "N",
      .help = "Number of processes that share an epoch" },
    { "drop_last", STOKE_OPT_FLAG, FIELD(drop_last), .default_text = "false",
      .help = "Leave out the last batch where it is not full on every rank" },
    /* running */
    { "workers", STOKE_OPT_AUTO_INT, FIELD(workers), .default_text = "auto", .min = 0, .max = 1024,
      .argument = "N|auto",
      .help = "Threads that load samples; auto is the cores the process may use less --consumer-cores; 0 "
              "loads in the caller" },
    { "consumer_cores", STOKE_OPT_AUTO_INT, FIELD(consumer_cores), .default_text = "auto", .min = 0,
      .max = 1024, .argument = "N|auto",
      .help = "Cores that --workers auto leaves to the consumer of batches; auto is 1 for a program that "
              "trains, 0 for stoke commands that do not train" },
    { "prefetch", STOKE_OPT_INT, FIELD(prefetch), .default_text = "2", .min = 1, .max = 1024, .argument = "N",
      .help = "Batches kept ready ahead of the consumer" },
    { "nice", STOKE_OPT_INT, FIELD(nice), .default_text = "5", .min = 0, .max = 19, .argument = "N",
      .help = "By how much the priority of worker threads is lower than the consumer's" },
    { "memory_limit", STOKE_OPT_BYTES, FIELD(memory_limit), .default_text = "0", .argument = "BYTES",
      .help = "Ceiling for the loader's memory, e.g. 512M; prefetch shrinks to honour it. 0 sets none" },
    { "policy", STOKE_OPT_CHOICE, FIELD(policy), .default_text = "replace", .choices = "replace|skip|stop",
      .help = "What happens to a sample that cannot be read: another stands in, its row is left out, or the "
              "run stops" },
    { "max_bad", STOKE_OPT_STRING, FIELD(max_bad), .default_text = "1%", .argument = "N|P%",
      .help = "Stop the run when more samples than this are bad; a percentage of the set, rounded up, or a "
              "number" },
    { "quarantine", STOKE_OPT_STRING, FIELD(quarantine), .default_text = "quarantine.jsonl",
      .argument = "FILE",
      .help = "Where bad samples are recorded, one line of JSON each; an empty text records none. Unless a "
              "file is named, `stoke train` puts the list into the run's folder, and `stoke find-lr`, `stoke "
              "eval`, `stoke verify` and `stoke pack` to shards keep none" },
    /* keeping decoded samples */
    { "cache", STOKE_OPT_STRING, FIELD(cache), .default_text = "", .argument = "DIR",
      .help = "Folder where decoded and resized samples are kept, for later epochs and runs; several "
              "processes may share one. An empty text keeps none on disk" },
    { "cache_disk", STOKE_OPT_BYTES, FIELD(cache_disk), .default_text = "0", .argument = "BYTES",
      .help =
          "Budget of the --cache folder, e.g. 50G; samples that do not fit are decoded again. 0 sets none" },
    { "cache_ram", STOKE_OPT_BYTES, FIELD(cache_ram), .default_text = "0", .argument = "BYTES",
      .help = "Memory for decoded samples, e.g. 8G, in this process; works with and without --cache. 0 keeps "
              "none" },
};
/* clang-format on */

stoke_option_group stoke_data_options(stoke_data_params *params)
{
    return (stoke_option_group){ "data", table, sizeof table / sizeof *table, params };
}

stoke_data_params stoke_data_defaults(void)
{
    stoke_data_params params = { .struct_size = sizeof params };
    stoke_option_group group = stoke_data_options(&params);
    stoke_options_defaults(&group);
    return params;
}

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [STOKE_DTYPE_U8] = { "uint8", 1 },    [STOKE_DTYPE_F32] = { "float32", 4 },
    [STOKE_DTYPE_F16] = { "float16", 2 }, [STOKE_DTYPE_BF16] = { "bfloat16", 2 },
    [STOKE_DTYPE_U16] = { "uint16", 2 },  [STOKE_DTYPE_I32] = { "int32", 4 },
    [STOKE_DTYPE_I64] = { "int64", 8 },
};

size_t stoke_dtype_bytes(stoke_dtype dtype)
{
    return (size_t)dtype < sizeof dtypes / sizeof *dtypes ? dtypes[dtype].bytes : 0;
}

const char *stoke_dtype_name(stoke_dtype dtype)
{
    return (size_t)dtype < sizeof dtypes / sizeof *dtypes ? dtypes[dtype].name : "unknown";
}

stoke_dtype stoke_data_image_dtype(const stoke_data_params *params)
{
    static const stoke_dtype chosen[] = { STOKE_DTYPE_F32, STOKE_DTYPE_F16, STOKE_DTYPE_BF16,
                                          STOKE_DTYPE_U8 };
    return chosen[params->dtype];
}

stoke_dtype stoke_data_mask_dtype(const stoke_data_params *params, uint8_t label_depth)
{
    static const stoke_dtype chosen[] = { STOKE_DTYPE_U8, STOKE_DTYPE_U8, STOKE_DTYPE_U16, STOKE_DTYPE_I32,
                                          STOKE_DTYPE_I64 };
    if (params->mask_dtype == STOKE_MASK_DTYPE_AUTO)
        return label_depth == 2 ? STOKE_DTYPE_U16 : STOKE_DTYPE_U8;
    return chosen[params->mask_dtype];
}
