# SPDX-License-Identifier: Apache-2.0
"""Scripts empty only folders that they made: `make clean`, `make demo` and what claims a folder by scripts/ours."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests'))
import tap  # noqa: E402


def tree(*files):
    """A source tree with the scripts, and with these files."""
    root = tempfile.mkdtemp(prefix='stoke-test-')
    os.makedirs(os.path.join(root, 'scripts'))
    for name in ('ours', 'clean', 'demo'):
        shutil.copy(os.path.join(ROOT, 'scripts', name), os.path.join(root, 'scripts', name))
    for name in files:
        os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
        with open(os.path.join(root, name), 'w', encoding='utf-8') as file:
            file.write('precious')
    return root


def run(root, *command, code=0):
    env = {name: value for name, value in os.environ.items() if name != 'BUILD'}
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=env)
    assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def build(root, name, source=None):
    """A folder as Meson sets it up for a tree, this one unless told."""
    for folder in ('meson-private', 'meson-info'):
        os.makedirs(os.path.join(root, name, folder))
    with open(os.path.join(root, name, 'build.ninja'), 'w', encoding='utf-8') as file:
        file.write('precious')
    with open(os.path.join(root, name, 'meson-info', 'meson-info.json'), 'w', encoding='utf-8') as file:
        json.dump({'directories': {'source': source or root}}, file)


# Stands in for the command: it makes what the demo's steps make, and no more.
FAKE_STOKE = """#!/bin/sh
case $1-$2 in
synth-demo/pairs) mkdir -p demo/pairs/images; for i in 0 1 2 3; do echo picture >demo/pairs/images/00000$i.png; done ;;
train-demo/pairs) mkdir -p demo/runs/restored
    echo '{"kind": "eval", "step": 1, "psnr": 33.5, "ssim": 0.9, "input_psnr": 22.25, "input_ssim": 0.2}' >demo/runs/restored/log.jsonl ;;
predict-demo/runs/restored) mkdir -p demo/restored; echo picture >demo/restored/000000.png ;;
synth-*) mkdir -p demo/data/images demo/data/masks; for i in 0 1 2 3; do echo picture >demo/data/images/00000$i.jpg; done ;;
show-*) echo drawing >demo/samples.png ;;
train-*) mkdir -p demo/runs/b0/best demo/runs/b0/empty; echo weights >demo/runs/b0/best/w; printf 'step,miou\\n1,0.93\\n' >demo/runs/b0/metrics.csv ;;
predict-*) mkdir -p demo/masks; echo mask >demo/masks/000000.png ;;
esac
"""


def demo_tree():
    root = tree()
    build(root, 'build')
    os.makedirs(os.path.join(root, 'build', 'cli'))
    with open(os.path.join(root, 'build', 'cli', 'stoke'), 'w', encoding='utf-8') as file:
        file.write(FAKE_STOKE)
    os.chmod(file.name, 0o755)
    run(root, 'scripts/demo')
    return root


def put(root, name, text='mine'):
    os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
    with open(os.path.join(root, name), 'w', encoding='utf-8') as file:
        file.write(text)


def left(root):
    return sorted(os.path.relpath(os.path.join(where, name), root) for where, _, names in os.walk(os.path.join(root, 'demo')) for name in names)


def clean_takes_back_the_demo_alone():
    root = demo_tree()
    run(root, 'scripts/demo')  # again, over its own
    assert 'removes demo' in run(root, 'scripts/clean') and not os.path.exists(os.path.join(root, 'demo')), left(root)
    shutil.rmtree(root)
    root = demo_tree()
    mine = ['demo/masks/mine.png', 'demo/runs/mine/log.jsonl', 'demo/samples.png']  # two new ones, one changed
    for name in mine:
        put(root, name)
    said = run(root, 'scripts/clean')
    assert 'keeps in demo' in said and left(root) == ['demo/.stokehold', *mine], (said, left(root))
    assert not os.path.exists(os.path.join(root, 'demo', 'data')), 'folders of the demo are empty, and go'
    assert left(root) == ['demo/.stokehold', *mine] and 'keeps in demo' in run(root, 'scripts/clean')
    shutil.rmtree(root)


def a_demo_over_files_of_the_user():
    root = demo_tree()
    put(root, 'demo/masks/mine.png')
    put(root, 'demo/runs/mine/log.jsonl')
    run(root, 'scripts/demo')
    for name in ('demo/masks/mine.png', 'demo/runs/mine/log.jsonl', 'demo/runs/b0/metrics.csv'):
        assert name in left(root), name
    put(root, 'demo/runs/b0/notes.txt')
    said = run(root, 'scripts/demo', code=1)
    assert 'demo/runs/b0: holds files' in said and 'demo/runs/b0/notes.txt' in left(root), said
    run(root, 'scripts/clean')
    assert left(root) == ['demo/.stokehold', 'demo/masks/mine.png', 'demo/runs/b0/notes.txt', 'demo/runs/mine/log.jsonl'], left(root)
    shutil.rmtree(root)


def a_note_leads_nowhere_else():
    """Whatever the list of a demo says, nothing outside its folder goes."""
    root = demo_tree()
    put(root, 'mine.txt', 'mask\n')
    with open(os.path.join(root, 'demo', '.made'), encoding='utf-8') as file:
        digest = [line.split()[0] for line in file if line.endswith('000000.png\n')][0]
    with open(os.path.join(root, 'demo', '.made'), 'a', encoding='utf-8') as file:
        file.write(f'{digest}  mine.txt\n{digest}  demo/../mine.txt\n{digest}  {root}/mine.txt\n')
    run(root, 'scripts/clean')
    assert os.path.exists(os.path.join(root, 'mine.txt'))
    shutil.rmtree(root)


def a_demo_that_learns_nothing_fails():
    for network, wrong in (('b0', ('0.93', '0.5')), ('restored', ('33.5', '29.5'))):
        root = demo_tree()
        put(root, 'build/cli/stoke', FAKE_STOKE.replace(*wrong))
        said = run(root, 'scripts/demo', code=1)
        assert ('The best mIoU is 0.500' if network == 'b0' else 'The gain in PSNR is 7.2 dB') in said, said
        shutil.rmtree(root)


def clean_keeps_builds_of_other_trees():
    root, other = tree(), tree()
    build(other, 'build')
    build(root, 'build', source=other)
    elsewhere = os.path.join(other, 'build')
    assert 'keeps build: it is a build of another tree' in run(root, 'scripts/clean')
    assert f'keeps {elsewhere}' in run(root, 'env', f'BUILD={elsewhere}', 'scripts/clean') and os.path.isdir(elsewhere)
    assert 'removes build' in run(other, 'scripts/clean') and not os.path.exists(elsewhere)
    shutil.rmtree(root)
    shutil.rmtree(other)


def clean_keeps_what_make_did_not_make():
    root = tree('build/notes.txt', 'build-2019/thesis.tex', 'demo/talk.odp')
    build(root, 'build-asan')
    said = run(root, 'scripts/clean')
    for name in ('build', 'build-2019', 'demo'):
        assert f'keeps {name}' in said, said
    for name in ('build/notes.txt', 'build-2019/thesis.tex', 'demo/talk.odp'):
        assert os.path.exists(os.path.join(root, name)), name
    assert 'removes build-asan' in said and not os.path.exists(os.path.join(root, 'build-asan')), said
    shutil.rmtree(root)


def clean_removes_its_own():
    root = tree()
    build(root, 'build')
    build(root, 'elsewhere')
    os.symlink('elsewhere', os.path.join(root, 'build-link'))
    run(root, 'scripts/ours', 'claim', 'demo', 'demo')
    said = run(root, 'scripts/clean')
    assert not os.path.exists(os.path.join(root, 'build')) and not os.path.exists(os.path.join(root, 'demo')), said
    assert 'keeps build-link' in said and os.path.exists(os.path.join(root, 'elsewhere', 'build.ninja')), said
    assert run(root, 'scripts/clean').count('removes') == 0
    shutil.rmtree(root)


def a_demo_of_others_stays():
    root = tree('demo/runs/b0/mine.txt', 'demo/masks/mine.png')
    said = run(root, 'scripts/demo', code=1)
    assert 'demo: is there already' in said, said
    for name in ('demo/runs/b0/mine.txt', 'demo/masks/mine.png'):
        assert os.path.exists(os.path.join(root, name)), name
    shutil.rmtree(root)


def a_folder_is_claimed_once():
    root = tree('mine/file')
    assert 'is there already' in run(root, 'scripts/ours', 'claim', 'bench', 'mine', code=1)
    run(root, 'scripts/ours', 'check', 'bench', 'mine', code=1)
    run(root, 'scripts/ours', 'claim', 'bench', 'a/new one')
    run(root, 'scripts/ours', 'check', 'bench', 'a/new one')
    run(root, 'scripts/ours', 'claim', 'bench', 'a/new one')
    run(root, 'scripts/ours', 'claim', 'demo', 'a/new one', code=1)
    shutil.rmtree(root)


sys.exit(tap.run([
    ('clean keeps what make did not make', clean_keeps_what_make_did_not_make),
    ('clean removes its own', clean_removes_its_own),
    ('clean takes back the demo alone', clean_takes_back_the_demo_alone),
    ('a demo over files of the user', a_demo_over_files_of_the_user),
    ('a demo that learns nothing fails', a_demo_that_learns_nothing_fails),
    ('a note leads nowhere else', a_note_leads_nowhere_else),
    ('clean keeps builds of other trees', clean_keeps_builds_of_other_trees),
    ('a demo of others stays', a_demo_of_others_stays),
    ('a folder is claimed once', a_folder_is_claimed_once),
]))
