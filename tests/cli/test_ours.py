# SPDX-License-Identifier: Apache-2.0
"""What is not provably ours stays as it is: folders without our marker, files without our mark."""
import hashlib
import os
import shutil
import sys

from cli import contains, equal, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=8)


def write(name, text='precious'):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), 'w', encoding='utf-8') as file:
        file.write(text)
    return path(name)


def read(name):
    with open(path(name), encoding='utf-8') as file:
        return file.read()


def expect(*names, text='precious'):
    for name in names:
        equal(read(name), text, name)


# ---- caches ----

def a_cache_leaves_folders_of_others_alone():
    mine = ['proj/tmp/thesis.tex', 'proj/memo', 'proj/usage']
    for name in mine:
        write(name)
    for args in (['hash', SET, '--size', 32, '--batch', 8, '--cache', path('proj')],
                 ['pack', SET, '--size', 32, '--format', 'cache', '--out', path('proj')],
                 ['train', SET, '--size', 32, '--batch', 4, '--steps', 1, '--name', 'no', '--cache', path('proj')],
                 ['bench', 'data', SET, '--size', 32, '--short', '--cache', path('proj')]):
        contains(stoke(*args, code=1).stderr, 'proj', 'is not empty', 'name a new folder')
        expect(*mine)
        equal(sorted(os.listdir(path('proj'))), ['memo', 'tmp', 'usage'], 'the folder')


def a_new_cache_is_marked():
    stoke('hash', SET, '--size', 32, '--cache', path('cache'))
    contains(read('cache/.stokehold'), 'Stokehold cache, version 1\n')
    stored = stoke_json('hash', SET, '--size', 32, '--cache', path('cache'))
    equal(stored['cache']['misses'], 0, 'misses')
    # As version 0.1 left it: no marker. It is known by its names and still used.
    os.remove(path('cache/.stokehold'))
    again = stoke_json('hash', SET, '--size', 32, '--cache', path('cache'))
    equal((again['all'], again['cache']['misses']), (stored['all'], 0), 'an old cache')
    assert os.path.exists(path('cache/.stokehold'))
    # Of what somebody puts into it nothing is removed.
    write('cache/tmp/thesis.tex')
    stoke('hash', SET, '--size', 32, '--cache', path('cache'))
    expect('cache/tmp/thesis.tex')


# ---- runs ----

def digest(name):
    with open(path(name), 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()


def networks(run):
    return [digest(f'{run}/{part}/model.safetensors') for part in ('best', 'last')]


def small_run(name, *more, cwd=None):
    stoke('train', SET, '--size', 32, '--batch', 4, '--steps', 6, '--eval-every', 3, '--name', name, *more, cwd=cwd)
    return f'runs/{name}'


def a_run_without_its_state_is_not_begun_again():
    run = small_run('gone')
    before = networks(run)
    log = read(f'{run}/log.jsonl')
    os.remove(path(run, 'state.safetensors'))
    error = stoke('train', '--resume', run, '--steps', 2, code=1).stderr
    contains(error, 'state.safetensors is gone', '6 steps', 'best/ and last/', f'--pretrained {run}/best', '--force')
    shutil.rmtree(path(run, 'last'))  # what people keep
    contains(stoke('train', '--resume', run, code=1).stderr, 'would write over best/')
    equal(digest(f'{run}/best/model.safetensors'), before[0], 'best/')
    equal(read(f'{run}/log.jsonl'), log, 'the log')
    os.rename(path(run, 'best'), path('kept'))  # what is gone is not suggested
    error = stoke('train', '--resume', run, code=1).stderr
    contains(error, 'would write over the log', 'Its networks are gone, too', '--force')
    assert '--pretrained' not in error, error
    os.rename(path('kept'), path(run, 'best'))
    os.remove(path(run, 'log.jsonl'))  # and without a log there is no telling: best/ stays
    contains(stoke('train', '--resume', run, code=1).stderr, 'would write over best/')
    done = stoke('train', '--resume', run, '--force')
    contains(done.stderr, 'begins again at step 0 and replaces best/')
    equal(networks(run), before, 'the same run again')


def a_run_killed_before_its_first_checkpoint_goes_on():
    run = small_run('killed')
    before = networks(run)
    os.remove(path(run, 'state.safetensors'))
    shutil.rmtree(path(run, 'last'))
    lines = read(f'{run}/log.jsonl').splitlines(True)
    first = next(i for i, line in enumerate(lines) if '"eval"' in line)
    write(f'{run}/log.jsonl', ''.join(lines[:first + 1]))  # best/ is there, its state is not yet
    contains(stoke('train', '--resume', run).stderr, 'no checkpoint yet')
    equal(networks(run), before, 'the run in one go')


def an_older_state_does_not_replace_a_longer_run():
    run = small_run('older', '--stop-after', 3)
    shutil.copy(path(run, 'state.safetensors'), path('old-state'))
    stoke('train', '--resume', run)
    before = networks(run)
    shutil.copy(path('old-state'), path(run, 'state.safetensors'))
    contains(stoke('train', '--resume', run, code=1).stderr, 'is of step 3', 'saved at step 6', '--force')
    equal(networks(run), before, 'the longer run')
    contains(stoke('train', '--resume', run, '--force').stderr, 'goes back from step 6')
    equal(networks(run), before, 'the same steps again')


def a_run_is_moved():
    project = path('project')
    shutil.copytree(SET, path('project/data'))
    stoke('train', 'data', '--size', 32, '--batch', 4, '--steps', 6, '--eval-every', 3, '--name', 'r', '--stop-after', 3,
          cwd=project)
    whole = small_run('whole')
    scores = stoke_json('eval', path('project/runs/r'), '--data', path('project/data'))['miou']

    def evaluated(run, *more, cwd='/'):
        return stoke_json('eval', run, *more, cwd=cwd)['miou']

    equal(evaluated(path('project/runs/r')), scores, 'from elsewhere')
    shutil.move(path('project/runs/r'), path('elsewhere'))  # the run alone
    equal(evaluated(path('elsewhere')), scores, 'a run that was moved')
    stoke('report', path('elsewhere'), cwd='/')
    stoke('why', 'slow', '--run', path('elsewhere'), cwd='/')
    os.makedirs(path('project/runs'), exist_ok=True)
    shutil.move(path('elsewhere'), path('project/runs/r'))
    shutil.move(project, path('moved'))  # the run with its data
    equal(evaluated(path('moved/runs/r/best')), scores, 'moved with its data')
    shutil.move(path('moved/data'), path('data-now'))  # and the data alone
    error = stoke('eval', path('moved/runs/r'), cwd='/', code=1).stderr
    contains(error, path('project/data'), 'was here', '--data DIR')
    contains(stoke('train', '--resume', path('moved/runs/r'), cwd='/', code=1).stderr, 'was here', '--data DIR')
    equal(evaluated(path('moved/runs/r'), '--data', path('data-now')), scores, 'with --data')
    stoke('train', '--resume', path('moved/runs/r'), '--data', path('data-now'), cwd='/')
    equal(networks('moved/runs/r'), networks(whole), 'the bits of a run that stayed')
    stoke('train', '--resume', path('moved/runs/r'), cwd='/')  # it knows where its data is now


# ---- files that the user names ----

MARK = b'Made by Stokehold, which may replace this file.'


def head(name):
    with open(path(name), 'rb') as file:
        return file.read(128)


def is_refused_and_forced(args, out):
    """Somebody's file under that name is refused; with --force it is replaced, and that is said."""
    os.remove(path(out))
    write(out)
    contains(stoke(*args, code=1).stderr, path(out), 'is there already', '--force')
    expect(out)
    contains(stoke(*args, '--force').stderr, f'--force: {path(out)} is replaced')


def tables_and_settings_are_not_replaced():
    # Of each: the command, the name it writes; a second time it is refused, and with --force replaced and said.
    for args, out in ((['recommend', '--vram', 8, '--write', path('t/rec.yaml')], 't/rec.yaml'),
                      (['verify', SET, '--csv', path('t/findings.csv')], 't/findings.csv'),
                      (['hash', SET, '--size', 16, '--batches', 1, '--state', path('t/state.json')], 't/state.json'),
                      (['monitor', '--once', '--csv', path('t/monitor.csv')], 't/monitor.csv')):
        os.makedirs(path('t'), exist_ok=True)
        stoke(*args)
        is_refused_and_forced(args, out)
        assert read(out) != 'precious', out


def pictures_of_ours_are_drawn_again():
    run = small_run('pictures')
    slow = [SET, '--size', 16, '--batch', 2, '--device', 'sim:t4', '--step-ms', 1, '--steps', 3]
    device = [*slow, '--warm-up', 1]
    for args, out in ((['show', SET, '--size', 16, '--count', 2, '--out', path('p/samples.png')], 'p/samples.png'),
                      (['show', SET, '--ops', '--only', 'hflip', '--out', path('p/ops.png')], 'p/ops.png'),
                      (['bench', 'device', *device, '--timeline', path('p/line.svg')], 'p/line.svg'),
                      (['bench', 'device', *device, '--trace', path('p/trace.json')], 'p/trace.json'),
                      (['eval', run, '--out', path('p')], 'p/confusion.png'),
                      (['eval', run, '--out', path('p')], 'p/worst.png'),
                      (['eval', run, '--out', path('p')], 'p/eval.json')):
        os.makedirs(path('p'), exist_ok=True)
        stoke(*args)
        assert MARK in head(out), (out, head(out))
        stoke(*args)
        is_refused_and_forced(args, out)
        assert MARK in head(out), out
    write('q/classes.csv')  # without an eval.json of ours beside it
    contains(stoke('eval', run, '--out', path('q'), code=1).stderr, 'classes.csv')
    expect('q/classes.csv')


def a_set_of_pictures_is_not_replaced_by_synth():
    write('mine/images/000000.jpg')
    write('mine/masks/000000.png')
    error = stoke('synth', path('mine'), '--count', 2, '--size', 16, code=1).stderr
    contains(error, 'mine', 'is not empty', 'name a new folder')
    expect('mine/images/000000.jpg', 'mine/masks/000000.png')
    write('mine/notes')
    contains(stoke('synth', path('mine'), '--count', 2, '--size', 16, '--force').stderr, '--force: 2 pictures')
    expect('mine/notes')
    assert not os.path.exists(path('mine/.stokehold')), 'a folder of others is not marked'
    stoke('synth', path('own'), '--count', 2, '--size', 16)
    before = digest('own/images/000000.jpg')
    stoke('synth', path('own'), '--count', 2, '--size', 16, '--seed', 9)  # its own set, again
    assert digest('own/images/000000.jpg') != before


def a_picture_in_a_synthetic_set_stays():
    command = ('synth', path('mixed'), '--count', 3, '--size', 16, '--seed')
    stoke(*command, 0)
    before = digest('mixed/images/000000.jpg')
    drawn = open(path('mixed/masks/000001.png'), 'rb').read()
    # A photograph under a name of synth's; a mask of synth's that somebody worked on, with its comment kept.
    for name, content in (('images/000001.jpg', b'my photograph'), ('masks/000001.png', drawn[:-20] + b'+' + drawn[-19:]),
                          ('masks/000002.png', drawn + b'more'), ('images/000002.jpg', b'')):
        kept = open(path('mixed', name), 'rb').read()
        with open(path('mixed', name), 'wb') as file:
            file.write(content)
        contains(stoke(*command, 9, code=1).stderr, name, 'is not as synth wrote it', '--force')
        equal(open(path('mixed', name), 'rb').read(), content, name)
        equal(digest('mixed/images/000000.jpg'), before, 'nothing is written before the refusal')
        with open(path('mixed', name), 'wb') as file:
            file.write(kept)
    os.mkfifo(path('mixed/images/pipe'))  # nobody waits for its writer
    os.replace(path('mixed/images/pipe'), path('mixed/images/000001.jpg'))
    contains(stoke(*command, 9, code=1).stderr, 'images/000001.jpg is not as synth wrote it')
    os.remove(path('mixed/images/000001.jpg'))
    write('mixed/images/000001.jpg')
    contains(stoke(*command, 9, '--force').stderr, '--force: 1 picture in')
    assert digest('mixed/images/000000.jpg') != before
    equal(stoke(*command, 0, '--force').stderr.count('--force'), 0, 'all of them are from synth')
    equal(digest('mixed/images/000000.jpg'), before, 'the same set again')


def pack_removes_only_what_it_packed():
    stoke('pack', SET, '--out', path('shards'))
    # A manifest is a file: whatever it lists, only names of this packing go.
    write('shards/photos.tar')
    shards = read('shards/stoke-pack.jsonl').splitlines(True)[1:]
    write('shards/stoke-pack.jsonl', '{"stoke_pack": 1}\n{"shard": "photos.tar", "samples": 1}\n' + ''.join(shards))
    contains(stoke('pack', SET, '--out', path('shards'), '--force').stderr, '--force: 1 shard was replaced')
    expect('shards/photos.tar')
    # Nor does an archive that somebody put in the place of a shard, or a shard that was added to.
    stoke('pack', SET, '--out', path('listed'), '--shard-samples', 3)
    for content in (b'my archive', open(path('listed/000000.tar'), 'rb').read()):
        kept = open(path('listed/000001.tar'), 'rb').read()
        with open(path('listed/000001.tar'), 'wb') as file:
            file.write(content)
        before = digest('listed/000001.tar')
        for args in ([], ['--force'], ['--force', '--shard-samples', 8]):
            error = stoke('pack', SET, '--out', path('listed'), *(args or ['--shard-samples', 3]), code=1).stderr
            contains(error, 'listed/000001.tar', 'is not the shard that was packed here', 'move it away')
            equal(digest('listed/000001.tar'), before, 'the archive')
            assert os.path.exists(path('listed/000000.tar')), 'nothing is removed before the refusal'
        with open(path('listed/000001.tar'), 'wb') as file:
            file.write(kept)
    os.replace(path('listed/000001.tar'), path('listed/kept'))
    os.mkfifo(path('listed/000001.tar'))
    contains(stoke('pack', SET, '--out', path('listed'), '--force', code=1).stderr, 'is not the shard that was packed here')
    os.replace(path('listed/kept'), path('listed/000001.tar'))
    write('listed/000003.tar')  # of no shard of before, and of one that is planned now
    contains(stoke('pack', SET, '--out', path('listed'), '--shard-samples', 2, '--force', code=1).stderr, 'listed/000003.tar')
    expect('listed/000003.tar')
    os.remove(path('listed/000003.tar'))
    write('listed/000002.tar.idx')  # nobody's index
    contains(stoke('pack', SET, '--out', path('listed'), '--force').stderr, '--force: 3 shards were replaced')
    expect('listed/000002.tar.idx')
    # What looks like a leftover in a folder that was never packed to is somebody's.
    write('other/000000.tar.tmp-0123ab')
    contains(stoke('pack', SET, '--out', path('other'), code=1).stderr, 'is not empty')
    expect('other/000000.tar.tmp-0123ab')


def help_has_the_rule():
    contains(stoke('help', 'files').stdout, MARK.decode(), '.stokehold', '--force')


sys.exit(tap.run([
    ('a cache leaves folders of others alone', a_cache_leaves_folders_of_others_alone),
    ('a new cache is marked, an old one adopted', a_new_cache_is_marked),
    ('a run without its state is not begun again', a_run_without_its_state_is_not_begun_again),
    ('a run killed before its first checkpoint goes on', a_run_killed_before_its_first_checkpoint_goes_on),
    ('an older state does not replace a longer run', an_older_state_does_not_replace_a_longer_run),
    ('a run is moved', a_run_is_moved),
    ('tables and settings are not replaced', tables_and_settings_are_not_replaced),
    ('pictures of ours are drawn again', pictures_of_ours_are_drawn_again),
    ('a set of pictures is not replaced by synth', a_set_of_pictures_is_not_replaced_by_synth),
    ('a picture in a synthetic set stays', a_picture_in_a_synthetic_set_stays),
    ('pack removes only what it packed', pack_removes_only_what_it_packed),
    ('help has the rule', help_has_the_rule),
]))
