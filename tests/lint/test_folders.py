# SPDX-License-Identifier: Apache-2.0
"""Scripts empty only folders that they made: `make clean`, `make demo` and what claims a folder by scripts/ours."""
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


def clean_keeps_what_make_did_not_make():
    root = tree('build/notes.txt', 'build-2019/thesis.tex', 'demo/talk.odp', 'build-asan/build.ninja', 'build-asan/meson-private/x')
    said = run(root, 'scripts/clean')
    for name in ('build', 'build-2019', 'demo'):
        assert f'keeps {name}' in said, said
    for name in ('build/notes.txt', 'build-2019/thesis.tex', 'demo/talk.odp'):
        assert os.path.exists(os.path.join(root, name)), name
    assert 'removes build-asan' in said and not os.path.exists(os.path.join(root, 'build-asan')), said
    shutil.rmtree(root)


def clean_removes_its_own():
    root = tree('build/build.ninja', 'build/meson-private/x', 'elsewhere/build.ninja', 'elsewhere/meson-private/x')
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
    ('a demo of others stays', a_demo_of_others_stays),
    ('a folder is claimed once', a_folder_is_claimed_once),
]))
