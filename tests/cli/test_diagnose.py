# SPDX-License-Identifier: Apache-2.0
"""stoke diagnose: settings of every dialect, sums that are exact, pictures, what-ifs, faults. Times are not judged, but for those that
are a model's."""
import json
import os
import re
import sys
import xml.etree.ElementTree as xml

from cli import contains, equal, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=22)  # batches of 4: an epoch is six steps, the last one short
LOOP = ['--step-ms', 2, '--steps', 8, '--warm-up', 1, '--device', 'sim:rtx3090', '--although-busy']
SMALL = ['--batch', 4, '--size', '24x32']
CAUSES = ['augmentation on the CPU', 'too few workers', 'no pinned memory', 'copies that nothing overlaps',
          'workers restarted every epoch', 'a loop that waits for every step', 'too few batches made ahead']


def write(name, text):
    with open(path(name), 'w') as out:
        out.write(text)
    return path(name)


def is_sound(answer, steps=8):
    """What must hold of every diagnosis."""
    equal(answer['steps'], steps)
    equal(sum(row['ns'] for row in answer['idle']), answer['idle_ns'], 'the causes sum to')
    equal(sum(row['ns'] for row in answer['idle'] if row['input']), answer['input_ns'], 'input')
    equal(answer['busy_ns'] + answer['idle_ns'], answer['elapsed_ns'], 'busy and idle')
    equal([fix['cause'] for fix in answer['fixes']], CAUSES)
    assert 0 < answer['busy_share'] <= 1 and answer['costs']['cores'] > 0 and answer['costs']['restart_ms'] > 0, answer['costs']
    orders = sorted(fix['order'] for fix in answer['fixes'] if fix['applies'] and fix['order'])
    equal(orders, list(range(1, len(orders) + 1)), 'orders')
    for fix in answer['fixes']:
        assert fix['what'], fix
        if fix['applies']:
            assert fix['gain_low_ms'] <= fix['gain_high_ms'] and fix['change'] and fix['where'], fix
            assert 0 < fix['alone']['busy_share'] <= 1, fix
    return {fix['cause']: fix for fix in answer['fixes']}


def a_pytorch_file():
    file = write('x_config.yaml', 'data:\n  batch_size: 4\n  num_workers: 1\n  image_size: [24, 32]\n'
                                  'training:\n  log_interval: 1\n')
    answer = stoke_json('diagnose', '--config', file, SET, *LOOP)
    fixes = is_sound(answer)
    equal((answer['dialect'], answer['source'], answer['device']), ('sections', 'emulated', 'sim:rtx3090'))
    setup = answer['setup']
    equal((setup['batch'], setup['workers'], setup['prefetch'], setup['transfer'], setup['placement'], setup['persistent'], setup['sync']),
          (4, 1, 2, 'pageable', 'host', False, True))
    equal(answer['costs']['step_ms'], 2)
    equal(answer['costs']['steps_per_epoch'], 6)
    for cause in CAUSES[2:6]:
        assert fixes[cause]['applies'], cause
    equal(fixes[CAUSES[2]]['where'], 'data.pin_memory (new)')
    equal(fixes[CAUSES[5]]['where'], 'training.log_interval')
    contains(' '.join(answer['remarks']), "PyTorch's", 'persistent_workers', 'pin_memory')
    changed = answer['together']['setup'] != answer['setup']
    equal(re.sub(r' --workers \d+', '', answer['next'] or ''), f'stoke optimize --config {file} --gpu rtx3090' if changed else '')


def what_the_file_takes():
    """Keys are those that optimize would write: DataLoader has no cuda_prefetch, TrainingArguments pin by themselves."""
    loader = write('loader.yaml', 'train_ds:\n  batch_size: 4\n  num_workers: 1\n  image_size: [24, 32]\n')
    answer = stoke_json('diagnose', '--config', loader, SET, *LOOP)
    fixes = is_sound(answer)
    equal(fixes[CAUSES[2]]['where'], 'train_ds.pin_memory (new)')
    contains(fixes[CAUSES[3]]['where'], 'in your training code', 'DataLoader, which has no such argument')
    plan = stoke_json('optimize', '--config', loader, '--gpu', 'rtx3090', '--cores', '4', '--dry-run')
    written = {change['path'] for change in plan['changes']}
    assert 'train_ds.pin_memory' in written and 'train_ds.cuda_prefetch' not in written, written
    theirs = write('hf.yaml', 'per_device_train_batch_size: 4\ndataloader_num_workers: 1\nimage_size: [24, 32]\n')
    answer = stoke_json('diagnose', '--config', theirs, SET, *LOOP)
    equal(answer['setup']['transfer'], 'pinned')
    contains(' '.join(answer['remarks']), "pin_memory is not in the file: on, TrainingArguments' default")


def what_the_code_takes():
    """optimize is the next step only where it can put one of the fixes into the file."""
    ready = 'num_workers: 2\n  pin_memory: true\n  persistent_workers: true\n  prefetch_factor: 64\n'
    files = [write('ready.yaml', 'train_ds:\n  batch_size: 4\n  image_size: [24, 32]\n  ' + ready),
             write('class.yaml', 'data:\n  class_path: my.Data\n  init_args:\n    batch_size: 4\n    image_size: [24, 32]\n    num_workers: 2\n')]
    for file in files:
        answer = stoke_json('diagnose', '--config', file, SET, *LOOP, '--augment', 'none')
        ordered = [fix for fix in answer['fixes'] if fix['applies'] and fix['order']]
        if not ordered:
            continue
        code = all('your training code' in fix['where'] or 'your class' in fix['where'] for fix in ordered)
        contains(answer['next'], 'for your training code' if code else 'stoke optimize')


def other_dialects():
    flat = write('flat.yaml', f'batch_size: 4\nnum_workers: 0\npin_memory: true\nimage_size: 24\ndata_root: {SET}\n')
    answer = stoke_json('diagnose', '--config', flat, *LOOP)
    is_sound(answer)
    equal((answer['dialect'], answer['setup']['workers'], answer['setup']['transfer']), ('flat', 0, 'pinned'))
    own = write('own.yaml', stoke('config', SET, *SMALL, '--workers', 1, '--prefetch', 3).stdout)
    answer = stoke_json('diagnose', '--config', own, *LOOP, '--workers', 2)  # flags count above the file
    is_sound(answer)
    equal((answer['dialect'], answer['setup']['workers'], answer['setup']['prefetch'], answer['setup']['transfer']),
          ('stoke.yaml', 2, 3, 'stream'))
    two = write('two.yaml', 'a:\n  num_workers: 1\nb:\n  num_workers: 0\n')
    contains(stoke('diagnose', '--config', two, SET, code=2).stderr, '--map num_workers=')
    answer = stoke_json('diagnose', '--config', two, SET, *SMALL, *LOOP, '--map', 'num_workers=b.num_workers')
    equal(answer['setup']['workers'], 0)


def by_flags_for_people():
    done = stoke('diagnose', SET, *SMALL, *LOOP, '--workers', 1, '--transfer', 'pageable', '--sync', '--no-persistent',
                 '--bars', path('bars.svg'), '--timeline', path('time.svg'), '--html', path('page.html'), '--perfetto', path('trace.json'))
    equal(done.stdout.startswith('The simulated RTX 3090 was busy '), True)
    assert not re.search(r'\[(-?[\d.]+), \1\]', done.stdout), 'an interval of no width'
    # Which change is worth its while depends on the machine.
    contains(done.stdout, '= idle', 'to the nanosecond [measured; device emulated]', 'what ', 'cores meanwhile', '[predicted]',
             'The model on the setup as it is', '\nNext: ', 'bars.svg', *CAUSES)
    if 'what to change, in this order' in done.stdout:
        contains(done.stdout, 'They do not add', 'With all of them: busy', 'Next: the same with --')
    # Sentences may be long, and so may a change that says why it helps only together with another.
    longest = max(len(line) for line in done.stdout.splitlines()
                  if not line.startswith(('The ', 'costs', 'Next', 'page', 'trace', 'bars', 'time')) and ' by itself' not in line)
    assert longest <= 140, longest
    for name in ('bars.svg', 'time.svg'):
        xml.parse(path(name))
    with open(path('page.html'), encoding='utf-8') as stream:
        contains(stream.read(), '<svg', 'data:image/svg+xml;base64,', 'The simulated RTX 3090 was busy')
    with open(path('trace.json'), encoding='utf-8') as stream:
        assert {'step', 'copy'} <= {event['name'] for event in json.load(stream)['traceEvents']}
    # What one run wrote, another takes its steps from.
    answer = stoke_json('diagnose', SET, *SMALL, '--trace', path('trace.json'), '--steps', 8, '--device', 'sim')
    equal(round(answer['costs']['step_ms'], 3), 2)
    contains(answer['costs']['step_source'], 'from a trace of stoke')


def what_if():
    answer = stoke_json('diagnose', SET, *SMALL, *LOOP, '--what-if', 'workers=2 transfer=pageable; placement=device;')
    is_sound(answer)
    equal([w['change'] for w in answer['what_if']], ['workers=2 transfer=pageable', 'placement=device'])
    equal((answer['what_if'][0]['setup']['workers'], answer['what_if'][1]['setup']['placement']), (2, 'device'))
    for w in answer['what_if']:
        p = w['predicted']
        assert p['busy_low'] <= p['busy_high'] and p['step_interval_ms'] >= 2, p
    contains(stoke('diagnose', SET, *SMALL, '--what-if', 'wrokers=2', code=2).stderr, 'wrokers')


def verified():
    answer = stoke_json('diagnose', SET, *SMALL, '--step-ms', 1, '--steps', 4, '--warm-up', 1, '--device', 'sim', '--workers', 1,
                        '--transfer', 'pageable', '--verify', '--pairs', 2, '--although-busy')
    fixes = is_sound(answer, steps=4)
    for fix in fixes.values():
        if fix['applies']:
            m = fix['measured']
            assert m['gain_low_ms'] <= m['gain_ms'] <= m['gain_high_ms'] and m['pairs'] == 2, m
            assert abs(m['error_ms'] - (fix['gain_ms'] - m['gain_ms'])) < 1e-9, m
    assert answer['together']['measured']['busy_share'] > 0


def the_native_engine():
    answer = stoke_json('diagnose', SET, '--batch', 2, '--size', 32, '--classes', 5, '--device', 'native', '--steps', 3, '--workers', 0)
    fixes = is_sound(answer, steps=3)
    equal((answer['device'], answer['source'], answer['costs']['step_source']), ('native', 'measured', 'really computed'))
    contains(fixes[CAUSES[0]]['what'], 'the processor is the device')
    contains(stoke('diagnose', SET, '--device', 'native', '--step-ms', 3, code=2).stderr, '--step-ms')


def what_is_assumed():
    """Without a word about device and step: a simulated GPU, and 100 ms; both are said."""
    env = dict(os.environ, STOKE_LIBCUDA='/nowhere/libcuda.so')
    done = stoke('diagnose', SET, *SMALL, '--steps', 2, '--warm-up', 1, env=env)
    contains(done.stdout, '100.0 ms [assumed: --step-ms N or --trace FILE')
    if 'sim:rtx3090' in done.stdout:
        contains(done.stderr, 'no accelerator is here', 'is simulated')
        contains(done.stdout.splitlines()[0], 'simulated RTX 3090 was busy')


def too_busy():
    """Whichever it is on this machine: a judgement, or the words that there is none and what is certain."""
    answer = stoke_json('diagnose', SET, *SMALL, '--step-ms', 2, '--steps', 8, '--device', 'sim:rtx3090')
    text = stoke('diagnose', SET, *SMALL, '--step-ms', 2, '--steps', 8, '--device', 'sim:rtx3090').stdout
    equal('too busy to tell' in answer['verdict'], answer['too_busy'])
    assert answer['cores_had'] >= 0
    if 'too busy to tell' in text:
        contains(text, ' cores were available)', 'Certain: a batch takes', '--although-busy')
        assert 'what to change' not in text and '[predicted]' not in text, text
    else:
        contains(text, '[predicted]')


def faults():
    contains(stoke('diagnose', code=2).stderr, 'no data given')
    with open(path('without data.yaml'), 'w') as file:
        print('base_channels: 8\nnum_blocks: 1\nbatch_size: 4', file=file)
    contains(stoke('diagnose', '--config', path('without data.yaml'), code=2).stderr, 'without data.yaml names no data: ',
             "name a folder beside it (stoke diagnose DIR --config '")
    contains(stoke('diagnose', path('nowhere'), code=1).stderr, 'nowhere')
    contains(stoke('diagnose', '--config', path('none.yaml'), SET, code=1).stderr, 'none.yaml')
    contains(stoke('diagnose', SET, '--device', 'sim:rtx1', code=None).stderr, 'rtx1')
    bad = write('bad.json', '{"traceEvents": [')
    answer = stoke_json('diagnose', SET, '--trace', bad, code=1)
    contains(answer['error']['message'], 'bad.json')
    contains(stoke('diagnose', SET, '--trace', write('empty.json', '[]'), code=1).stderr, 'no steps in this trace')
    contains(stoke('diagnose', SET, '--trace', bad, '--step-ms', 3, code=2).stderr, 'give one')
    contains(stoke('diagnose', SET, *SMALL, *LOOP, '--bars', path('no', 'bars.svg'), code=1).stderr, 'bars.svg')


sys.exit(tap.run([
    ("a PyTorch trainer's file", a_pytorch_file),
    ('what the file takes', what_the_file_takes),
    ('what the code takes', what_the_code_takes),
    ('other dialects', other_dialects),
    ('by flags, for people', by_flags_for_people),
    ('what if', what_if),
    ('verified', verified),
    ('the native engine', the_native_engine),
    ('what is assumed', what_is_assumed),
    ('too busy', too_busy),
    ('faults', faults),
]))
