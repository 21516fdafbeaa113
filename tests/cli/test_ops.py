# SPDX-License-Identifier: Apache-2.0
"""stoke ops: what --augment can be made of; what it prints can be typed."""
import re
import sys

from cli import contains, equal, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=3)
ALL = stoke_json('ops')


def accepted(spec):
    """Whether --augment takes it; the settings are checked before a file is read."""
    return stoke('hash', SET, '--size', 24, '--augment', spec, '--quiet', code=None)


def the_list():
    done = stoke('ops')
    equal(done.stderr, '')
    contains(done.stdout, 'Geometry', 'Colour', 'Mix', 'Presets', 'p=0.5 (0 to 1), degrees=20 (-360 to 360)', 'standard')
    longest = max(len(line) for line in done.stdout.splitlines())
    assert longest <= 120, f'a line of {longest} letters'
    for entry in ALL['ops'] + ALL['presets']:
        assert re.search(r'^  %s +\S' % entry['name'], done.stdout, re.MULTILINE), entry['name']


def the_fields():
    equal({op['group'] for op in ALL['ops']}, {'geometry', 'colour', 'mix'})
    equal([preset['name'] for preset in ALL['presets']],
          ['none', 'light', 'crop', 'standard', 'strong', 'face', 'medical'])
    rotate = next(op for op in ALL['ops'] if op['name'] == 'rotate')
    equal(rotate['settings'][1], {'name': 'degrees', 'type': 'spread', 'default': '20', 'min': -360, 'max': 360,
                                  'help': 'Angle, counter-clockwise'})


def one_of(name):
    """Its page, and the two examples on it."""
    def test():
        text = stoke('ops', name).stdout
        line = re.search(r'^  stoke show demo/data --augment "?(.*?)"?$', text, re.MULTILINE).group(1)
        equal(accepted(line).returncode, 0, line)
        yaml = re.search(r'^  augment:\n(.*)\Z', text, re.MULTILINE | re.DOTALL)
        if yaml:
            with open(path('op.yaml'), 'w') as out:
                out.write('augment:\n' + yaml.group(1))
            equal(accepted(path('op.yaml')).stdout, accepted(line).stdout, 'file and line')
        answer = stoke_json('ops', name)
        equal([entry['name'] for entry in answer['ops'] + answer['presets']], [name])
        for op in answer['ops']:
            for setting in op['settings']:
                contains(text, setting['name'], setting['help'])
    return test


def unknown():
    done = stoke('ops', 'twirl', code=2)
    contains(done.stderr, 'twirl', 'stoke ops')
    equal(done.stdout, '')
    contains(stoke('ops', 'rotat', code=2).stderr, 'did you mean rotate?')
    equal(stoke_json('ops', 'twirl', code=2)['error']['code'], 'invalid')
    stoke('ops', 'hflip', 'vflip', code=2)


def found_by_the_name_of_the_option():
    equal(stoke('help', 'augment').stdout, stoke('help', 'ops').stdout)


def lists_on_the_command_line():
    contains(accepted('').stderr, '--augment: the text is empty')
    contains(accepted('hflip,spin').stderr, 'no op or preset is called "spin"')
    contains(accepted('random_crop,center_crop').stderr, 'random_crop and center_crop')
    equal(accepted('crop').stdout, accepted('random_crop,hflip(p=0.5)').stdout)
    for spec in ('', 'hflip,spin', 'hflip(p=2)', 'hflip(p'):
        equal(accepted(spec).returncode, 2, spec)


sys.exit(tap.run([
    ('the list', the_list),
    ('the fields', the_fields),
    ('unknown names', unknown),
    ('help augment', found_by_the_name_of_the_option),
    ('lists on the command line', lists_on_the_command_line),
] + [(f'page of {entry["name"]}', one_of(entry['name'])) for entry in ALL['ops'] + ALL['presets']]))
