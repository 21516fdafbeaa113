# SPDX-License-Identifier: Apache-2.0
"""The shards of `stoke pack` as the webdataset package reads them, and its shards as stoke reads them. Skips when the
package is not installed (scripts/test installs it). `webdataset_live.py STOKE`, with an interpreter that has it."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap

sys.path.append(os.environ.get('STOKE_TEST_PYTHON', ''))  # the environment of scripts/install-deps
STOKE = sys.argv[1]


def package():
    try:
        import webdataset
        return webdataset
    except ImportError as error:
        raise tap.Skip('the webdataset package is not installed') from error


def stoke(*args):
    done = subprocess.run([STOKE, *args, '--quiet'], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(*parts):
    with open(os.path.join(*parts), 'rb') as stream:
        return stream.read()


def make_set(folder):
    """Twelve pairs; one below a folder with a dot, one with dots and a percent sign in its own name."""
    stoke('synth', folder, '--count', '12', '--size', '40x56')
    moved = {'000003': 'v1.2/000003', '000004': 'odd.name.50%'}
    names = [f'{i:06d}' for i in range(12)]
    for old, new in moved.items():
        for side, extension in (('images', '.jpg'), ('masks', '.png')):
            target = os.path.join(folder, side, new + extension)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(os.path.join(folder, side, old + extension), target)
    return [moved.get(name, name) for name in names]


def webdataset_reads_ours():
    wds = package()
    with tempfile.TemporaryDirectory() as work:
        names = make_set(os.path.join(work, 'set'))
        stoke('pack', os.path.join(work, 'set'), '--out', os.path.join(work, 'shards'), '--shard-samples', '5')
        url = os.path.join(work, 'shards', '{000000..000002}.tar')
        samples = {sample['__key__']: sample for sample in wds.WebDataset(url, shardshuffle=False)}
        escaped = {name: name.replace('%', '%25') for name in names}
        escaped['odd.name.50%'] = 'odd%2Ename%2E50%25'
        assert sorted(samples) == sorted(escaped.values()), sorted(samples)
        for name, key in escaped.items():
            sample = samples[key]
            assert sorted(k for k in sample if not k.startswith('__')) == ['jpg', 'mask.png'], sorted(sample)
            assert sample['jpg'] == read(work, 'set', 'images', name + '.jpg'), name
            assert sample['mask.png'] == read(work, 'set', 'masks', name + '.png'), name
        print(f'# webdataset {wds.__version__}: {len(samples)} samples')


def stoke_reads_theirs():
    wds = package()
    with tempfile.TemporaryDirectory() as work:
        names = [name for name in make_set(os.path.join(work, 'set')) if '.' not in name]
        os.makedirs(os.path.join(work, 'theirs'))
        with wds.ShardWriter(os.path.join(work, 'theirs', '%06d.tar'), maxcount=4, verbose=0) as sink:
            for name in names:
                sink.write({'__key__': name, 'jpg': read(work, 'set', 'images', name + '.jpg'),
                            'mask.png': read(work, 'set', 'masks', name + '.png'), 'json': b'{"a": 1}'})
        listed = os.path.join(work, 'set', 'list.csv')
        with open(listed, 'w', encoding='utf-8') as stream:
            stream.writelines(f'images/{name}.jpg,masks/{name}.png\n' for name in names)
        options = ['--size', '40x56', '--order', 'sequential']
        assert stoke('hash', os.path.join(work, 'theirs'), *options) == stoke('hash', '--list', listed, *options)


sys.exit(tap.run([
    ('webdataset reads what pack wrote', webdataset_reads_ours),
    ('stoke reads what webdataset wrote', stoke_reads_theirs),
]))
