# SPDX-License-Identifier: Apache-2.0
"""stoke.yaml: the same keys as the flags, the same result; man pages and completion from the same tables."""
import os
import re
import subprocess
import sys

from cli import COMMANDS, READERS, ROOT, STOKE, WORK, contains, equal, hashed, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=9)


def write(name, text):
    with open(path(name), 'w') as out:
        out.write(text)
    return path(name)


def flags_of(command):
    return sorted(set(re.findall(r'^\s+(--[a-z0-9-]+)', stoke(*command.split(), '--help').stdout, re.MULTILINE)))


def data_flags():
    return sorted(set(re.findall(r'^\s+(--[a-z0-9-]+)', stoke('help', 'data').stdout, re.MULTILINE)))


def shipped_file_is_in_step():
    with open(os.path.join(ROOT, 'configs', 'stoke.yaml'), encoding='utf-8') as stream:
        equal(stream.read(), stoke('config').stdout, 'configs/stoke.yaml (make it again: stoke config > configs/stoke.yaml)')


def shipped_training_file_is_in_step():
    with open(os.path.join(ROOT, 'configs', 'train.yaml'), encoding='utf-8') as stream:
        equal(stream.read(), stoke('config', '--train').stdout,
              'configs/train.yaml (make it again: stoke config --train > configs/train.yaml)')


def training_settings():
    """--train takes the flags of training too, has the defaults of `stoke train`, and its file reads back."""
    flags = ['--train', SET, '--model', 'b1', '--lr', 2e-4, '--schedule', 'cosine', '--class-weights', '1,2.5', '--no-pictures',
             '--eval-every', 30, '--batch', 3]
    settings = stoke_json('config', *flags)
    equal((settings['model'], settings['lr'], settings['schedule'], settings['eval_every'], settings['pictures']),
          ('b1', 2e-4, 'cosine', 30, False))
    equal((settings['augment'], settings['normalize'], settings['batch']), ('standard', 'imagenet', 3), 'defaults of train')
    config = write('training.yaml', stoke('config', *flags).stdout)
    equal(stoke_json('config', '--train', '--config', config), settings, 'settings')
    equal(stoke('config', '--train', '--config', config).stdout, stoke('config', *flags).stdout, 'file')
    equal(stoke_json('config', '--train')['batch'], 'auto')
    equal(stoke_json('config')['batch'], 8)
    equal(stoke_json('config', '--batch', 'auto')['batch'], 8, 'auto of a command that does not train')
    help_text = ' '.join(stoke('config', '--train', '--help').stdout.split())
    contains(help_text, 'The network:', '--head-lr', 'default standard', 'default imagenet', '1 to 1048576; default auto')
    assert '--head-lr' not in stoke('config', '--help').stdout, 'options of training without --train'
    contains(stoke('config', '--lr', 1, code=2).stderr, '--lr')
    contains(stoke('config', '--train', '--name', '', code=2).stderr, '--name: the name is empty')


def training_keys_are_passed_over():
    """One file for all: commands that only read data take their keys and check the others."""
    config = write('all.yaml', f'data:\n  data: {SET}\n  size: 24\nloader:\n  batch: 4\ntrain:\n  epochs: 3\n  lr: 0.1\nmodel: b0\n')
    equal(hashed('--config', config), hashed(SET, '--batch', 4, '--size', 24))
    training = write('train.yaml', stoke('config', '--train', SET, '--size', 24, '--batch', 4).stdout)
    equal(stoke_json('hash', '--config', training)['all'],
          stoke_json('hash', SET, '--batch', 4, '--size', 24, '--augment', 'standard', '--normalize', 'imagenet')['all'])
    contains(stoke('hash', '--config', write('slip2.yaml', f'data: {SET}\nepcohs: 3\n'), code=2).stderr, 'slip2.yaml:2', 'epochs')
    contains(stoke('hash', '--config', write('slip3.yaml', f'data: {SET}\nepochs: x\n'), code=2).stderr, 'slip3.yaml:2')
    fed = write('fed.yaml', f'data: {SET}\nsize: 24\nbatch: 4\nplacement: device\ntransfer: pageable\ndepth: 3\n')
    equal(stoke_json('hash', '--config', fed)['all'], stoke_json('hash', SET, '--batch', 4, '--size', 24)['all'])
    stoke('config', '--config', fed)
    for command in ('hash', 'config'):  # one feeds devices, the other checks the key and leaves it
        contains(stoke(command, '--config', write('slip4.yaml', f'data: {SET}\ntransfer: pinend\n'), code=2).stderr, 'slip4.yaml:2', 'pinned')


def every_key_is_explained():
    lines = stoke('config').stdout.splitlines()
    keys = [line.lstrip('# ').split(':')[0] for line in lines if re.match(r'(# )?[a-z_]+:( |$)', line)]
    for flag in data_flags():
        name = flag[2:].replace('-', '_')
        assert name in keys, f'{name} is not in the file'


def round_trip():
    flags = [SET, '--batch', 5, '--size', '24x40', '--seed', 9, '--augment', 'light', '--memory-limit', '1.5G',
             '--workers', 1, '--drop-last', '--val-split', 0.25, '--max-bad', '5%', '--dtype', 'bf16']
    config = write('trip.yaml', stoke('config', *flags).stdout)
    equal(stoke_json('config', '--config', config), stoke_json('config', *flags), 'settings')
    equal(stoke('config', '--config', config).stdout, stoke('config', *flags).stdout, 'file')


def file_equals_flags():
    config = write('same.yaml', f'data: {SET}\nbatch: 4\nsize: 24x32\nseed: 5\naugment: light\n')
    flags = [SET, '--batch', 4, '--size', '24x32', '--seed', 5, '--augment', 'light']
    equal(hashed('--config', config), hashed(*flags))


def one_file_for_all():
    """A list of ops in stoke.yaml equals the flag; the same file is also a file of ops; config prints it as text."""
    config = write('whole.yaml', f'data: {SET}\nbatch: 4\nsize: 24x32\naugment:\n  - hflip: {{p: 1}}\n  - rotate: {{degrees: 5..9}}\n')
    flags = [SET, '--batch', 4, '--size', '24x32', '--augment', 'hflip(p=1),rotate(degrees=5..9)']
    answer = stoke_json('hash', '--config', config)
    equal(answer['all'], stoke_json('hash', *flags)['all'])
    equal(stoke_json('hash', *flags[:-1], config)['all'], answer['all'], 'as a file of ops')
    again = write('again.yaml', stoke('config', '--config', config).stdout)
    equal(stoke_json('config', '--config', again), stoke_json('config', '--config', config), 'round trip')
    equal(stoke_json('hash', *flags[:-1], again)['all'], answer['all'], 'what config prints, as a file of ops')
    equal(stoke_json('hash', '--config', config, '--augment', 'none')['all'],
          stoke_json('hash', *flags[:-1], 'none')['all'], 'a flag overrides the list')
    contains(stoke('hash', '--config', write('slip.yaml', f'data: {SET}\n\naugment:\n  - roate\n'), code=2).stderr,
             'slip.yaml:4', 'did you mean rotate?')


def sections():
    config = write('sections.yaml', f'data:\n  data: {SET}\n  size: 24\nloader:\n  batch: 4\n')
    equal(hashed('--config', config), hashed(SET, '--batch', 4, '--size', 24))


def flags_override():
    config = write('over.yaml', f'data: {path("nowhere")}\nmasks: {path("nowhere")}\nbatch: 4\nsize: 24\n')
    settings = stoke_json('config', SET, '--config', config, '--batch', 2)
    equal((settings['data'], settings['masks'], settings['batch'], settings['size']), (SET, None, 2, [24, 24]))
    equal(hashed(SET, '--config', config, '--batch', 2), hashed(SET, '--batch', 2, '--size', 24))


def unknown_key():
    config = write('typo.yaml', f'data: {SET}\n# a comment\nbacth: 4\n')
    done = stoke('hash', '--config', config, code=2)
    contains(done.stderr, 'typo.yaml:3', 'bacth', 'batch')


def bad_files():
    contains(stoke('hash', '--config', path('none.yaml'), code=1).stderr, 'none.yaml')
    contains(stoke('hash', '--config', write('value.yaml', 'batch: many\n'), code=2).stderr, 'value.yaml:1')
    stoke('hash', '--config', write('list.yaml', '- a\n- b\n'), code=2)
    stoke('hash', '--config', write('open.yaml', 'batch: [1, 2\n'), code=2)


def asked_wrongly_or_failed():
    """2: what was typed is wrong; 1: what was named is missing or cannot be read. --json has both as {"error": ...}."""
    op = write('op.yaml', 'augment:\n  - twirl\n')
    broken = write('broken.yaml', 'augment: [\n')
    typo = write('typo2.yaml', 'bacth: 4\n')
    weights = write('weights.csv', 'name,weight\n')
    wrong = (['--augment', 'lihgt'], ['--augment', op], ['--augment', broken], ['--batch', 'many'], ['--bacth', 4],
             ['--config', typo], ['--size', 0.5], ['--label-map', '0:x'], ['--window', 'low'], ['--max-bad', 'few'],
             ['--rank', 2], ['--weights', weights], ['--weights', weights, '--order', 'balanced'], ['extra', 'word'])
    missing = (['--augment', path('no.yaml')], ['--config', path('no.yaml')], ['--config', WORK],
               ['--label-map', path('no.txt')], ['--order', 'weighted', '--weights', path('no.csv')])
    for code, cases in ((2, wrong), (1, missing)):
        for case in cases:
            for command in ('show', 'hash', 'dump'):
                before = stoke_json(command, SET, *case, code=code)
                assert before['error']['message'] and before['error']['code'], case
                equal(before['error']['code'] == 'invalid', code == 2, f'{case}: {before}')
                done = stoke(command, SET, '--json', *case, code=code)
                contains(done.stdout, '"error"')
                assert done.stderr.startswith(f'stoke {command}: '), done.stderr
    for command in ('show', 'hash', 'dump', 'verify'):
        equal('error' in stoke_json(command, path('nowhere'), code=1), True)


def augmentation_of_the_page():
    """The file as docs/augmentation.md has it is understood; what it says has an effect."""
    with open(os.path.join(ROOT, 'docs', 'augmentation.md'), encoding='utf-8') as stream:
        text = re.search(r'```yaml\n(augment:.*?)```', stream.read(), re.DOTALL).group(1)
    base = ['hash', SET, '--size', 24, '--augment']
    seen = {spec: stoke_json(*base, spec)['all'] for spec in ('none', 'light', 'crop', write('page.yaml', text),
                                                              write('centre.yaml', 'augment:\n  - center_crop\n'))}
    equal(len(set(seen.values())), 5, f'different digests: {seen}')
    equal(stoke_json(*base, write('crop.yaml', 'augment:\n  - random_crop\n  - hflip\n'))['all'], seen['crop'], 'crop')


def weights_without_order():
    done = stoke('hash', SET, '--weights', 'w.csv', code=2)
    contains(done.stderr, '--weights w.csv', '--order weighted')


def man_page(command):
    def test():
        page = stoke('man', *command.split()).stdout
        contains(page, '.TH ', '.SH NAME', '.SH OPTIONS', '.SH EXAMPLES')
        plain = page.replace('\\-', '-')
        missing = [flag for flag in flags_of(command) if flag not in plain]
        assert not missing, f'not in the man page: {missing}'
        built = os.path.join(os.path.dirname(STOKE), f'stoke-{command.replace(" ", "-")}.1')
        with open(built, encoding='utf-8') as stream:
            equal(stream.read(), page, built)
    return test


def man_overview():
    page = stoke('man').stdout
    contains(page, '.TH stoke 1', *[f'stoke\\-{c.split()[0]}' for c in COMMANDS])
    stoke('man', 'nothing', code=2)


def data_options_everywhere():
    for command in READERS:
        missing = [flag for flag in data_flags() if flag not in flags_of(command)]
        assert not missing, f'{command} lacks {missing}'


def completion():
    script = write('stoke.bash', stoke('completion', 'bash').stdout)
    def complete(*words):
        program = f'source {script}; COMP_WORDS=({" ".join(repr(w) for w in words)}); ' \
                  f'COMP_CWORD={len(words) - 1}; _stoke; echo "${{COMPREPLY[@]}}"'
        return subprocess.run(['bash', '-c', program], capture_output=True, text=True, check=True).stdout.split()
    equal(complete('stoke', 'ver'), ['verify'])
    equal(complete('stoke', 'help', 'fil'), ['files'])
    equal(complete('stoke', 'bench', ''), ['data', 'pix', 'net', 'step', 'transfer', 'comm', 'device'])
    equal(complete('stoke', 'hash', '--resume-at'), ['--resume-at'])
    equal(complete('stoke', 'bench', 'data', '--swe'), ['--sweep'])
    equal(complete('stoke', 'hash', '--policy', 're'), ['replace'])
    equal(sorted(set(complete('stoke', 'dump', '--'))), sorted(set(flags_of('dump')) | {'--help'}))
    stoke('completion', 'tcsh', code=2)


sys.exit(tap.run([
    ('configs/stoke.yaml is in step with the table', shipped_file_is_in_step),
    ('configs/train.yaml is in step with the tables', shipped_training_file_is_in_step),
    ('settings of training', training_settings),
    ('keys of training are passed over', training_keys_are_passed_over),
    ('every key is in the file', every_key_is_explained),
    ('file and flags round trip', round_trip),
    ('a file equals the same flags', file_equals_flags),
    ('one file for all', one_file_for_all),
    ('sections', sections),
    ('flags override', flags_override),
    ('unknown key, with line', unknown_key),
    ('bad files', bad_files),
    ('asked wrongly, or failed', asked_wrongly_or_failed),
    ('augmentation as in docs/augmentation.md', augmentation_of_the_page),
    ('--weights without --order weighted', weights_without_order),
    ('data options in every reader', data_options_everywhere),
    ('man overview', man_overview),
    ('bash completion', completion),
] + [(f'man page of {c}', man_page(c)) for c in COMMANDS]))
