# SPDX-License-Identifier: Apache-2.0
"""What is said to who typed something that is almost right, and patterns and folders that are found by themselves."""
import os
import pty
import re
import shutil
import subprocess
import sys

from PIL import Image

from cli import STOKE, WORK, contains, equal, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=10, size='32x48', classes=3)


def a_word_too_many_has_a_flag():
    """The set, the run and the settings file, given without their flags."""
    stoke('train', SET, '--size', 32, '--batch', 2, '--steps', 2, '--name', 'r', '--threads', 1, '--quiet')
    contains(stoke('eval', 'runs/r', SET, code=2).stderr, f"'{SET}' is one argument too many: did you mean --data {SET}?")
    contains(stoke('check', SET, code=2).stderr, f'did you mean --data {SET}?')
    contains(stoke('why', 'slow', 'runs/r', code=2).stderr, 'did you mean --run runs/r?')
    contains(stoke('check', 'runs/r/config.yaml').stdout, 'runs/r/config.yaml: for `stoke train`')
    os.makedirs(path('a b'), exist_ok=True)
    contains(stoke('check', path('a b'), code=2).stderr, f"did you mean --data '{path('a b')}'?")
    contains(stoke('verify', SET, SET, code=2).stderr, 'is one argument too many')


def help_is_near():
    for word in ('--hlep', '--halp', '--hel'):
        contains(stoke('verify', word, code=2).stderr, 'did you mean --help?')
    contains(stoke('train', '--hepl', code=2).stderr, 'did you mean --help?')  # --eps is further away
    contains(stoke('--hlep', code=2).stderr, "did you mean '--help'?")


def names_of_other_trainers():
    """Flags that mean exactly the same are taken, with dashes or underscores; of others it is said what is meant."""
    plain = stoke('hash', SET, '--size', 32, '--batch', 2, '--workers', 1).stdout
    equal(stoke('hash', SET, '--image-size', 32, '--batch_size=2', '--num_workers', 1).stdout, plain)
    equal(stoke('hash', '--data-root', SET, '--img_size=32', '--batch-size', 2, '--num-workers=1').stdout, plain)
    text = stoke('train', SET, '--imgsz', 32, '--batch_size', 2, '--max-epochs', 3, '--accumulate-grad-batches', 2, '--learning-rate', 0.002,
                 '--dry-run').stderr
    contains(text, 'of 4 pictures', 'lr 0.002')
    contains(stoke('train', SET, '--pin-memory', code=2).stderr, "no option '--pin-memory'", '--transfer')
    contains(stoke('optimize', '--monitor', 5, code=2).stderr, 'stoke monitor 60')
    for word in ('--out', '--output-dir', '--save_dir'):
        contains(stoke('train', SET, word, 'x', code=2).stderr, f"no option '{word}'", '--runs DIR')
    contains(stoke('train', SET, '--amp', code=2).stderr, '--precision')
    for words in (['--devices', -1], ['--gpus', 1]):
        contains(stoke('train', SET, *words, code=2).stderr, f"no option '{words[0]}'", 'settings file', 'on the processor')
    contains(stoke('train', SET, '--device', 'cuda', code=2).stderr, "no option '--device'", 'stoke devices')
    for command in ('train', 'diagnose', 'find-batch', 'monitor', 'bench step'):
        contains(stoke(*command.split(), '--gpu', 0, code=2).stderr, "no option '--gpu'", 'check, optimize')
    for word, meant in (('batch-find', 'stoke find-batch'), ('training', 'stoke train'), ('config.py', '--config FILE')):
        contains(stoke(word, code=2).stderr, f"unknown command '{word}'", meant)
    settings = path('settings.py')
    with open(settings, 'w', encoding='utf-8') as file:
        file.write(f'DATA_DIR = "{SET}"\nBATCH_SIZE = 2\nIMAGE_SIZE = (32, 32)\n')
    contains(stoke('train', settings, '--dry-run').stderr, 'of 2 pictures')
    contains(stoke('check', '--learning-rate', 3, code=2).stderr, "unknown option '--learning-rate'")
    contains(stoke('hash', SET, '--', '--batch_size', code=2).stderr, "'--batch_size' is one argument too many")


def commands_of_other_programs():
    for word, meant in (('benchmark', 'stoke bench'), ('profile', 'stoke diagnose'), ('tune', 'stoke optimize'), ('lr-find', 'stoke find-lr'),
                        ('lr_find', 'stoke find-lr'), ('optimise', 'stoke optimize')):
        contains(stoke(word, code=2).stderr, f"unknown command '{word}'", meant)


def a_settings_file_by_itself():
    with open(path('x_config.yaml'), 'w') as out:
        out.write('batch_size: 4\nnum_workers: 0\n')
    file = path('x_config.yaml')
    equal(stoke('optimize', file, '--dry-run', '--gpu', 'rtx3090').stdout, stoke('optimize', '--config', file, '--dry-run', '--gpu', 'rtx3090').stdout)
    contains(stoke('check', file).stdout, f'{file}: for PyTorch')
    contains(stoke('why', 'slow', file).stdout, 'no workers make batches')
    contains(stoke('optimize', path('nowhere.yaml'), code=1).stderr, 'nowhere.yaml')
    contains(stoke('optimize', file, '--config', file, code=2).stderr, 'is one argument too many')


def one_of_several_processes():
    """Of two that do not find each other each would train alone, in the same folder."""
    text = stoke('train', SET, '--size', 32, '--steps', 1, '--name', 'several', env=dict(os.environ, RANK='1', WORLD_SIZE='2'), code=1).stderr
    contains(text, 'torchrun started 2 processes', '-m stokehold')
    assert not os.path.exists('runs/several'), 'it began'
    stoke('train', SET, '--size', 32, '--dry-run', env=dict(os.environ, RANK='0', WORLD_SIZE='1'))


def order_in_one_pipe():
    """stderr does not land inside a line of stdout, and remarks stay where they were said."""
    done = subprocess.run([STOKE, 'optimize', '--config', path('x_config.yaml'), '--dry-run', '--gpu', 'rtx3090'], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=True)
    parts = stoke('optimize', '--config', path('x_config.yaml'), '--dry-run', '--gpu', 'rtx3090')
    lines = done.stdout.splitlines()
    for line in parts.stdout.splitlines() + parts.stderr.splitlines():
        assert line in lines, line


def test_part_alone():
    """CamVid's test part in its own folder; beside train it stays out."""
    for images, masks in (('test', 'testannot'), ('test_images', 'test_masks'), ('test/images', 'test/masks')):
        folder = path('alone-' + images.replace('/', '-'))
        shutil.copytree(os.path.join(SET, 'images'), os.path.join(folder, images))
        shutil.copytree(os.path.join(SET, 'masks'), os.path.join(folder, masks))
        equal(stoke_json('verify', folder)['pairs'], 10, images)
    folder = path('alone-test')
    shutil.copytree(os.path.join(SET, 'images'), os.path.join(folder, 'train'))
    shutil.copytree(os.path.join(SET, 'masks'), os.path.join(folder, 'trainannot'))
    equal(stoke_json('verify', folder)['pairs'], 10, 'with train')


def folders_that_are_there():
    folder = path('other')
    for name in ('photos', 'truth'):
        os.makedirs(os.path.join(folder, name, 'deeper'))
    text = stoke('verify', folder, code=1).stderr
    contains(text, '--images DIR and --masks DIR', 'There are: photos, truth')


def patterns_of_shards():
    """In quotes, so that the shell leaves them alone."""
    stoke('pack', SET, '--out', 'shards', '--shard-samples', 3)
    names = sorted(name for name in os.listdir(path('shards')) if name.endswith('.tar'))
    assert len(names) == 4, names
    whole = stoke('hash', 'shards', '--size', 32, '--batch', 2).stdout
    equal(stoke('hash', 'shards/*.tar', '--size', 32, '--batch', 2).stdout, whole)
    equal(stoke('hash', 'sh?rds/*[0-9].tar', '--size', 32, '--batch', 2).stdout, whole)
    contains(stoke('hash', 'shards/x*.tar', code=1).stderr, 'shards/x*.tar: no file is called so')


def the_last_epoch_is_as_long_as_it_gets():
    """--steps 100 of an epoch of some 400: the bar of a terminal counts to 100."""
    many = make_set('many', count=420, size='32x32', classes=3)
    master, slave = pty.openpty()
    run = subprocess.Popen([STOKE, 'train', many, '--size', '96', '--batch', '1', '--steps', '100', '--name', 'short', '--threads', '1',
                            '--eval-every', '0'], cwd=WORK, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    text = b''
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:  # nobody writes any more
            break
        if not more:
            break
        text += more
    equal(run.wait(timeout=240), 0, text.decode())
    totals = set(re.findall(rb'/(\d+) steps', text))
    assert totals <= {b'100'}, text.decode()


def heights_come_first():
    folder = path('sizes')
    shutil.copytree(SET, folder)
    mask = os.path.join(folder, 'masks', sorted(os.listdir(os.path.join(folder, 'masks')))[0])
    Image.new('L', (20, 10)).save(mask)
    contains(stoke('verify', folder, code=1).stdout, 'the mask is 10x20 (height x width), its image is 32x48')


def files_that_are_no_pictures():
    folder = path('mixed')
    shutil.copytree(os.path.join(SET, 'images'), os.path.join(folder, 'deeper'))
    for name in ('a.bmp', 'b.BMP', 'deeper/c.gif', 'notes.txt', 'README'):
        open(os.path.join(folder, name), 'w').close()
    text = stoke('predict', 'runs/r', folder, '--out', 'masks').stderr
    line = re.search('left out, as JPEG, PNG, WebP and TIFF are read: (.*)', text)
    assert line, text
    equal(sorted(line.group(1).lower().split(', ')), ['1 .gif', '1 .txt', '1 other', '2 .bmp'])
    assert 'left out' not in stoke('predict', 'runs/r', os.path.join(SET, 'images'), '--out', 'masks2').stderr


def completed(*words):
    script = ('source <("$STOKE" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _stoke; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(['bash', '-c', script, 'bash', *words], capture_output=True, text=True, timeout=60, env=dict(os.environ, STOKE=STOKE))
    equal((done.returncode, done.stderr), (0, ''))
    return done.stdout.split()


def completion_knows_values():
    equal(completed('stoke', 'why', ''), ['oom', 'slow', 'unstable', 'loading', '--help'])
    equal(completed('stoke', 'why', 'o'), ['oom'])
    equal(completed('stoke', 'train', '--model', 'b'), ['b0', 'b1', 'b2', 'b3', 'b4', 'b5'])
    contains(completed('stoke', 'train', 'x', '--augment', ''), 'light', 'strong')
    contains(completed('stoke', 'ops', 'r'), 'rotate')
    contains(completed('stoke', 'train', '--ep'), '--epochs')


def what_is_not_the_cause():
    text = stoke('why', 'slow', '--run', 'runs/r').stdout
    lines = text.split('Looked for, and not the cause\n')[1].splitlines()
    assert lines and all(line.startswith('  no: ') for line in lines), text


sys.exit(tap.run([
    ('names of other trainers', names_of_other_trainers),
    ('commands of other programs', commands_of_other_programs),
    ('a settings file by itself', a_settings_file_by_itself),
    ('one of several processes', one_of_several_processes),
    ('order in one pipe', order_in_one_pipe),
    ('a word too many has a flag', a_word_too_many_has_a_flag),
    ('--hlep', help_is_near),
    ('a test part alone', test_part_alone),
    ('folders that are there are named', folders_that_are_there),
    ('patterns of shards', patterns_of_shards),
    ('steps of the last epoch', the_last_epoch_is_as_long_as_it_gets),
    ('height x width', heights_come_first),
    ('predict counts what it leaves out', files_that_are_no_pictures),
    ('completion has values', completion_knows_values),
    ('why: what is not the cause', what_is_not_the_cause),
]))
