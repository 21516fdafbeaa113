# SPDX-License-Identifier: Apache-2.0
"""docs/map.md is right about where a new thing goes: templates add one of each.

    test_map.py          do the templates touch exactly the files that their rows name? Without a build, in a moment
    test_map.py --build  the templates in a copy of the source, compiled there: do the new things work? (STOKE_BUILD: a build folder to begin with)

A template is a text file beside this one. `row` names the row of the map, `name` and `topic` stand for NAME and TOPIC in it. `=== PATH`
begins a new file; `=== PATH after TEXT` lines that come behind the line which starts with TEXT; `=== PATH replace TEXT` what replaces TEXT.
"""
import atexit
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'tests'))
import tap

FILE = re.compile(r'`([\w./-]+/[\w.-]+|[\w-]+\.build)`')
CONDITIONS = (' if ', 'for `')  # what a part of a row says that does not hold for every new thing


def read(path, root=ROOT):
    with open(os.path.join(root, path), encoding='utf-8') as stream:
        return stream.read()


class Template:
    def __init__(self, text):
        head, *blocks = re.split(r'^=== ', text, flags=re.MULTILINE)
        self.words = dict(line.split(' ', 1) for line in head.splitlines())
        self.edits = [block.split('\n', 1) for block in blocks]  # [what and where, lines]

    def touched(self):
        return {where.split(' ')[0] for where, _ in self.edits}

    def apply(self, root):
        """Makes the changes below `root`; a place that is no longer there, or there twice, is a fault of the template."""
        for where, lines in self.edits:
            path, _, how = where.partition(' ')
            target = os.path.join(root, path)
            if not how:
                assert not os.path.exists(target), f'{path} exists already'
                text = lines
            else:
                how, place = how.split(' ', 1)
                text = read(path, root)
                pattern = (r'^%s.*\n' if how == 'after' else r'^%s') % re.escape(place)
                found = re.findall(pattern, text, re.MULTILINE)
                assert len(found) == 1, f"{path} has {len(found)} lines that start with {place!r}: is a template in tests/map out of date?"
                new = found[0] + lines if how == 'after' else lines.rstrip('\n')
                text = text.replace(found[0], new) if how == 'replace' else re.sub(pattern, lambda _: new, text, flags=re.MULTILINE)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, 'w', encoding='utf-8') as stream:
                stream.write(text)


TEMPLATES = {os.path.basename(path)[:-4]: Template(read(path)) for path in sorted(glob.glob(os.path.join(HERE, '*.txt')))}


def row_of(page, title):
    """(files that are always touched, those that may be) of the row whose first cell has `title` in bold."""
    rows = re.findall(r'^\| \*\*%s\*\*[^|]*\| (.*) \|$' % re.escape(title), page, re.MULTILINE)
    assert len(rows) == 1, f'docs/map.md has {len(rows)} rows for a new {title}'
    always, perhaps = set(), set()
    for part in rows[0].split(';'):
        (perhaps if any(word in part for word in CONDITIONS) else always).update(FILE.findall(part))
    return always, perhaps


def compare(template, page):
    """What is wrong between a template and its row, as a text; empty when nothing is."""
    words = template.words
    always, perhaps = ({file.replace('NAME', words['name']).replace('TOPIC', words.get('topic', 'TOPIC')) for file in files}
                       for files in row_of(page, words['row']))
    touched = template.touched()
    faults = [f'the map names {file}, which needs no change' for file in sorted(always - touched)]
    return '\n'.join(faults + [f'the map does not name {file}' for file in sorted(touched - always - perhaps)])


def names_what_is_touched(template):
    def test():
        fault = compare(template, read('docs/map.md'))
        assert not fault, fault
    return test


def fits_the_source(template):
    """Every place that the template changes is there, once."""
    def test():
        with tempfile.TemporaryDirectory(prefix='stoke-map-') as copy:
            for path in template.touched():
                os.makedirs(os.path.dirname(os.path.join(copy, path)), exist_ok=True)
                if os.path.exists(os.path.join(ROOT, path)):
                    shutil.copy(os.path.join(ROOT, path), os.path.join(copy, path))
            template.apply(copy)
    return test


def a_wrong_row_is_noticed():
    """A file too many in each row, and each of its files left out."""
    page = read('docs/map.md')
    for template in TEMPLATES.values():
        row = template.words['row']
        more = re.sub(r'^(\| \*\*%s\*\*[^|]*\| )' % re.escape(row), r'\1`src/base/mem.c`, ', page, flags=re.MULTILINE)
        assert 'src/base/mem.c' in compare(template, more), f'{row}: a file too many passes'
        for file in row_of(page, row)[0]:
            assert compare(template, page.replace(f'`{file}`', 'it')), f'{row}: passes without {file}'


# ---- with a build ----

def copy_of_the_source():
    """Times and all, or everything would be compiled."""
    copy = os.path.join(tempfile.mkdtemp(prefix='stoke-map-'), 'source')
    atexit.register(shutil.rmtree, os.path.dirname(copy), ignore_errors=True)
    shutil.copytree(ROOT, copy, symlinks=True, ignore=lambda folder, names: [
        name for name in names if folder == ROOT and (name.startswith('build') or name == '.git') or name in ('__pycache__', 'runs')])
    return copy


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, **more)
    assert done.returncode == 0, f'{" ".join(command)}: exit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-1000:]}'
    return done.stdout


def build(copy):
    """The command of the copy. What the build folder at hand has compiled already is taken from there."""
    folder, have = os.path.join(copy, 'build'), os.environ['STOKE_BUILD']
    run(['meson', 'setup', folder, '-Dtests=false', '-Dpython=false'], cwd=copy)
    for part in ['src', 'cli', '.ninja_log', '.ninja_deps']:
        run(['cp', '-a', os.path.join(have, part), folder])
    return run(['ninja', '-C', folder, 'cli/stoke'])


class Copy:
    """Made by the first test that asks."""
    root = None

    @classmethod
    def ready(cls):
        if not cls.root:
            root = copy_of_the_source()
            for template in TEMPLATES.values():
                template.apply(root)
            print('# compiled: ' + build(root).strip().splitlines()[-1])
            cls.root = root
        return cls.root


def stoke(*args, code=0):
    root = Copy.ready()
    # meson test sets LD_LIBRARY_PATH to the library at hand, which comes before the one of the copy
    env = {key: value for key, value in os.environ.items() if key != 'LD_LIBRARY_PATH'}
    done = subprocess.run([os.path.join(root, 'build/cli/stoke'), *args], capture_output=True, text=True, timeout=200, cwd=os.path.dirname(root), env=env)
    assert done.returncode == code, f'stoke {" ".join(args)}: exit {done.returncode}\n{done.stdout}{done.stderr}'
    return done.stdout


def a_set():
    folder = os.path.join(os.path.dirname(Copy.ready()), 'set')
    if not os.path.exists(folder):
        stoke('synth', folder, '--count', '6', '--size', '32x32', '--classes', '3', '--quiet')
    return folder


def op_works():
    assert 'Exchange rows and columns' in stoke('ops')
    plain, drawn = (json.loads(stoke('hash', a_set(), '--size', '32x32', '--augment', text, '--json'))['all']
                    for text in ('transpose(p=0)', 'transpose(p=1)'))
    assert plain != drawn, 'the op draws nothing'


def metric_works():
    stoke('train', a_set(), '--size', '32x32', '--epochs', '1', '--batch', '2', '--val-split', '0.4', '--metric', 'iou_min', '--name', 'new', '--quiet')
    scores = stoke('eval', 'runs/new', '--json')
    assert 0 <= float(re.search(r'"iou_min": ([0-9.e-]+)', scores).group(1)) <= float(re.search(r'"miou": ([0-9.e-]+)', scores).group(1)), scores
    assert stoke('config', '--train') == read('configs/train.yaml', Copy.ready()), 'configs/train.yaml is not what `stoke config --train` prints'


def command_works():
    assert stoke('greet') == 'hello\n'
    assert 'Say hello' in stoke('greet', '--help') and 'greet' in stoke('help')


def gpu_works():
    assert json.loads(stoke('recommend', '--gpu', 'RTX 7777', '--json'))['subject'] == 'RTX 7777, 77 GB'
    digests = [json.loads(stoke('hash', a_set(), '--size', '32x32', *more, '--json'))['all'] for more in ([], ['--device', 'sim:rtx7777'])]
    assert digests[0] == digests[1], 'a batch is another one on the simulated card'


def network_works():
    stoke('train', a_set(), '--model', 'twoconv', '--size', '32x32', '--epochs', '1', '--batch', '2', '--val-split', '0.4', '--name', 'convs', '--quiet')
    assert json.loads(stoke('eval', 'runs/convs', '--json'))
    small = ('--model', 'twoconv', '--size', '32', '--batch', '1', '--json')
    products = json.loads(stoke('bench', 'net', '--short', *small))['products']
    assert {row['layer'] for row in products} == {'first', 'last'}, products
    estimate = json.loads(stoke('estimate', *small))
    assert estimate['native']['total_bytes'] > 0 and 'not known' in estimate['torch']['problem'], estimate
    assert json.loads(stoke('bench', 'step', '--dry-run', *small))['flops'] > 0


def loss_works():
    loss = {kind: json.loads(stoke('bench', 'step', '--size', '32', '--batch', '2', '--loss', kind, '--short', '--json'))['loss']
            for kind in ('focal', 'dice', 'focal_dice')}
    assert abs(loss['focal_dice'] - loss['focal'] - loss['dice']) < 1e-5 * loss['focal_dice'], loss
    stoke('train', a_set(), '--size', '32x32', '--steps', '1', '--batch', '2', '--loss', 'focal_dice', '--name', 'loss', '--quiet')


def format_works():
    """The same batches from masks in the new format."""
    from PIL import Image
    folder = os.path.join(os.path.dirname(Copy.ready()), 'grey')
    shutil.copytree(a_set(), folder)
    for name in os.listdir(os.path.join(folder, 'masks')):
        mask = os.path.join(folder, 'masks', name)
        picture = Image.open(mask)
        Image.frombytes('L', picture.size, picture.tobytes()).save(mask[:-3] + 'pgm', 'PPM')
        os.remove(mask)
    digests = [json.loads(stoke('hash', data, '--size', '32x32', '--json'))['all'] for data in (a_set(), folder)]
    assert digests[0] == digests[1], 'masks are others in the new format'


def device_works():
    stoke('selftest', '--device', 'mirror')
    assert 'mirror' in stoke('devices')


def house_rules_hold():
    """Links, named files, a row for every op and command; what scripts/lint says."""
    root = Copy.ready()
    run([sys.executable, os.path.join(root, 'scripts/lint')])
    run([sys.executable, os.path.join(root, 'tests/lint/test_docs.py')])


if '--build' in sys.argv:
    TESTS = [(f'a new {name} works', globals()[f'{name}_works']) for name in TEMPLATES] + [('lint and pages accept them', house_rules_hold)]
else:
    TESTS = ([(f'the row of {name} names what is touched', names_what_is_touched(template)) for name, template in TEMPLATES.items()]
             + [(f'the template of {name} fits the source', fits_the_source(template)) for name, template in TEMPLATES.items()]
             + [('a wrong row is noticed', a_wrong_row_is_noticed)])
sys.exit(tap.run(TESTS))
