# SPDX-License-Identifier: Apache-2.0
"""Validation during training sees what `stoke predict` will do: windows where training cuts windows."""
import json
import os
import shutil
import sys

from cli import contains, equal, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=10, size='96x80', classes=4)
COMMON = ['train', SET, '--size', '32', '--batch', '2', '--steps', '6', '--eval-every', '3', '--val-split', '0.4', '--threads', '2',
          '--precision', 'fp32', '--no-tensorboard']
CROP = ['--augment', 'crop']
SCORES = ('miou', 'f1_macro', 'f1_micro', 'precision', 'recall', 'pixel_accuracy', 'samples', 'confusion')


def folder(name):
    return path('runs', name)


def train(name, *more):
    """Made once; the texts of the run."""
    if not os.path.exists(folder(name)):
        done = stoke(*COMMON, *more, '--name', name)
        with open(folder(name) + '.txt', 'w', encoding='utf-8') as stream:
            stream.write(done.stdout + done.stderr)
    with open(folder(name) + '.txt', encoding='utf-8') as stream:
        return stream.read()


def lines(name, kind):
    with open(os.path.join(folder(name), 'log.jsonl'), encoding='utf-8') as stream:
        return [line for line in map(json.loads, stream) if line['kind'] == kind]


def setting(name, key):
    with open(os.path.join(folder(name), 'config.yaml'), encoding='utf-8') as stream:
        return next((line.split()[1] for line in stream if line.startswith(key + ':')), None)


def weights(name):
    with open(os.path.join(folder(name), 'last', 'model.safetensors'), 'rb') as stream:
        return stream.read()


def same_scores(got, logged):
    for key in SCORES:
        equal(got[key], logged[key], key)


def windows_where_training_cuts_windows():
    """The log, `stoke eval`, and what `stoke predict` would write agree to the digit; whole pictures squeezed do not."""
    text = train('crop', *CROP)
    contains(text, 'at the pictures\' own scale', 'about 20 each', '--eval-mode', 'validation: every 3 steps, ')
    equal(setting('crop', 'eval_mode'), 'slide')
    equal(lines('crop', 'start')[0]['eval_mode'], 'slide')
    logged = lines('crop', 'eval')[-1]
    got = stoke_json('eval', os.path.join(folder('crop'), 'last'))
    same_scores(got, logged)
    equal((got['mode'], got['original'], got['windows']), ('slide', True, 20 * got['samples']))
    equal(got['pixels'], got['samples'] * 96 * 80)
    equal(got['loss'], logged['loss'])
    equal([w['name'] for w in got['worst']], [w['name'] for w in logged['worst']][:8])
    original = stoke_json('eval', os.path.join(folder('crop'), 'last'), '--original', '--batch', '3', '--threads', '1')
    same_scores(original, logged)
    equal(original['loss'], logged['loss'])
    squeezed = stoke_json('eval', os.path.join(folder('crop'), 'last'), '--mode', 'resize')
    equal((squeezed['mode'], squeezed['original'], squeezed['windows']), ('resize', False, None))
    equal(squeezed['pixels'], squeezed['samples'] * 32 * 32)
    assert squeezed['confusion'] != logged['confusion']


def best_follows_them():
    scores = {line['step']: line['miou'] for line in lines('crop', 'eval')}
    equal(max(scores, key=scores.get), [line['step'] for line in lines('crop', 'eval') if line['best']][-1])
    same_scores(stoke_json('eval', folder('crop')), next(line for line in lines('crop', 'eval') if line['miou'] == max(scores.values())))


def pictures_are_whole():
    """Of the windows' masks put together, at the picture's proportions."""
    from PIL import Image
    out = path('out')
    stoke('eval', folder('crop'), '--out', out, '--quiet')
    for name in (os.path.join(folder('crop'), 'predictions', '000006.png'), os.path.join(out, 'worst.png')):
        picture = Image.open(name)
        picture.load()
        assert picture.width > 4 * 80 and picture.height > 4 * 96, picture.size


def whole_pictures_as_before():
    text = train('whole', '--augment', 'hflip')
    assert 'own scale' not in text, text
    equal(setting('whole', 'eval_mode'), 'resize')
    got, logged = stoke_json('eval', os.path.join(folder('whole'), 'last')), lines('whole', 'eval')[-1]
    same_scores(got, logged)
    equal((got['mode'], got['pixels']), ('resize', got['samples'] * 32 * 32))


def small_pictures_are_not_slid_over():
    """What `stoke predict` would resize: no more than 1.5 times the network's size."""
    answer = stoke_json(*COMMON, *CROP, '--size', '64', '--dry-run')
    equal((answer['eval_mode'], answer['eval_windows']), ('resize', 1))
    answer = stoke_json(*COMMON, *CROP, '--dry-run')
    equal((answer['eval_mode'], answer['eval_windows'], answer['eval_every']), ('slide', 20, 3))


def other_scales_are_told():
    contains(stoke(*COMMON, *CROP, '--eval-mode', 'resize', '--dry-run').stderr, '3.0 times smaller', 'stoke predict')
    contains(stoke(*COMMON, '--augment', 'none', '--eval-mode', 'slide', '--dry-run').stderr, '3.0 times as large')
    few = stoke(*COMMON, '--augment', 'random_resized_crop(scale=0.1..0.3)', '--dry-run').stderr
    contains(few, 'never sees more than 30 %')
    assert 'never sees' not in stoke(*COMMON, '--augment', 'strong', '--dry-run').stderr


def weights_do_not_depend_on_it():
    train('squeezed', *CROP, '--eval-mode', 'resize')
    assert weights('squeezed') == weights('crop')


def goes_on_to_the_same_bits():
    train('parts', *CROP, '--stop-after', '4')
    stoke('train', '--resume', folder('parts'), '--quiet')
    assert weights('parts') == weights('crop')
    keys = SCORES + ('loss', 'step', 'best')
    equal([[line[key] for key in keys] for line in lines('parts', 'eval')],
          [[line[key] for key in keys] for line in lines('crop', 'eval')])


def forget_the_setting(name):
    """As runs were before there was a choice: neither config.yaml nor the state says anything."""
    config = os.path.join(folder(name), 'config.yaml')
    with open(config, encoding='utf-8') as stream:
        kept = [line for line in stream if not line.startswith('eval_mode:')]
    with open(config, 'w', encoding='utf-8') as stream:
        stream.writelines(kept)


def runs_from_before_keep_what_they_had():
    train('old', *CROP, '--eval-mode', 'resize', '--stop-after', '4')
    forget_the_setting('old')
    shutil.copytree(folder('old'), folder('changed'))
    contains(stoke('train', '--resume', folder('old')).stderr, 'times smaller', '--force')
    equal([line['confusion'] for line in lines('old', 'eval')], [line['confusion'] for line in lines('squeezed', 'eval')])
    contains(stoke('train', '--resume', folder('changed'), '--eval-mode', 'slide', code=1).stderr, '--eval-mode was not set and is slide')
    done = stoke('train', '--resume', folder('changed'), '--eval-mode', 'slide', '--force')
    contains(done.stderr, 'was measured otherwise')
    same_scores(lines('changed', 'eval')[-1], lines('crop', 'eval')[-1])


def bad_files_are_left_out():
    broken = path('broken')
    shutil.copytree(SET, broken)
    names = [w['name'] for w in lines('crop', 'eval')[0]['worst']]
    os.truncate(os.path.join(broken, 'masks', os.path.basename(names[0]) + '.png'), 60)
    command = [*COMMON, *CROP, '--max-bad', '3']
    command[1] = broken
    done = stoke(*command, '--name', 'broken')
    contains(done.stderr, '1 bad file was left out', os.path.basename(names[0]))
    equal(lines('broken', 'eval')[-1]['samples'], len(names) - 1)
    with open(os.path.join(folder('broken'), 'quarantine.jsonl'), encoding='utf-8') as stream:
        equal(sum(names[0] in line for line in stream), 1, 'recorded once, not at every evaluation')
    command[-1] = '0'
    contains(stoke(*command, '--name', 'strict', code=1).stderr, '--max-bad')


def ignored_pixels_and_one_class():
    """Values that mean nothing do not count; foreground against background is a network of one class."""
    for name, more in (('ignored', ['--label-map', '0:0,1:1,*:ignore']), ('two', ['--label-map', '0:0,*:1'])):
        train(name, *CROP, *more)
        logged, got = lines(name, 'eval')[-1], stoke_json('eval', os.path.join(folder(name), 'last'))
        same_scores(got, logged)
        equal(got['loss'], logged['loss'])


def how_long_it_took():
    """Evaluating after every step takes more than half of the time: said once, with what to change."""
    text = train('often', *CROP, '--eval-every', '1')
    equal(text.count('% of the time ('), 1)
    contains(text, '--eval-every', '--eval-mode resize')
    assert all(line['seconds'] > 0 for line in lines('often', 'eval'))
    auto = stoke_json('train', make_set('large', count=10, size='200x200'), '--size', '32', '--batch', '1', '--steps', '1000',
                      '--val-split', '0.4', *CROP, '--dry-run')
    windows = auto['eval_windows'] * auto['val_samples']
    assert auto['eval_every'] >= int(windows / 3) > 50, auto


sys.exit(tap.run([
    ('windows where training cuts windows', windows_where_training_cuts_windows),
    ('best/ follows them', best_follows_them),
    ('pictures are whole', pictures_are_whole),
    ('whole pictures as before', whole_pictures_as_before),
    ('small pictures are not slid over', small_pictures_are_not_slid_over),
    ('other scales are told', other_scales_are_told),
    ('weights do not depend on it', weights_do_not_depend_on_it),
    ('a run goes on to the same bits', goes_on_to_the_same_bits),
    ('runs from before keep what they had', runs_from_before_keep_what_they_had),
    ('bad files are left out', bad_files_are_left_out),
    ('ignored pixels, and one class', ignored_pixels_and_one_class),
    ('how long it took', how_long_it_took),
]))
