# SPDX-License-Identifier: Apache-2.0
"""Our event files as TensorBoard itself reads them. Skips when the package is not installed (scripts/test installs it).
`tensorboard_live.py EVENTS_TOOL`, with an interpreter that has it."""
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap

sys.path.append(os.environ.get('STOKE_TEST_PYTHON', ''))  # the environment of scripts/install-deps
TOOL = sys.argv[1]


def accumulator():
    try:
        from tensorboard.backend.event_processing import event_accumulator
        return event_accumulator
    except ImportError as error:
        raise tap.Skip(f'the tensorboard package is not installed ({error})') from error


def png():
    from PIL import Image
    import io
    out = io.BytesIO()
    Image.new('RGB', (7, 5), (200, 10, 20)).save(out, 'PNG')
    return out.getvalue()


def written(work):
    with open(os.path.join(work, 'p.png'), 'wb') as out:
        out.write(png())
    run = os.path.join(work, 'run')
    os.mkdir(run)
    done = subprocess.run([TOOL, run, os.path.join(work, 'p.png')], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return run


def read(run):
    module = accumulator()
    events = module.EventAccumulator(run, size_guidance={module.SCALARS: 0, module.IMAGES: 0})
    events.Reload()
    return events


def scalars_and_purge():
    accumulator()
    with tempfile.TemporaryDirectory() as work:
        run = written(work)
        assert len(os.listdir(run)) == 2, os.listdir(run)
        events = read(run)
        assert sorted(events.Tags()['scalars']) == ['train/loss', 'train/lr'], events.Tags()
        loss = [(e.step, e.value) for e in events.Scalars('train/loss')]
        # Step 30 of the first session is forgotten: the second one began after step 20.
        assert loss == [(0, 0), (10, 10), (20, 20), (30, 130), (40, 140), (50, 150)], loss
        lr = [e.value for e in events.Scalars('train/lr')]
        assert math.isnan(lr[1]) and abs(lr[0] - 1e-4) < 1e-10, lr
        import tensorboard
        print(f'# tensorboard {tensorboard.__version__}')


def images():
    accumulator()
    with tempfile.TemporaryDirectory() as work:
        events = read(written(work))
        assert events.Tags()['images'] == ['val/predictions'], events.Tags()
        image = events.Images('val/predictions')[0]
        assert (image.step, image.width, image.height) == (20, 7, 5), image[:4]
        assert image.encoded_image_string == png()


def half_record():
    """A writer that was killed within a record: what stands before it is read."""
    accumulator()
    with tempfile.TemporaryDirectory() as work:
        run = written(work)
        last = sorted(os.listdir(run))[-1]
        path = os.path.join(run, last)
        with open(path, 'r+b') as stream:
            stream.truncate(os.path.getsize(path) - 7)
        steps = [e.step for e in read(run).Scalars('train/loss')]
        assert steps == [0, 10, 20, 30, 40], steps


sys.exit(tap.run([
    ('scalars, and what a resumed run forgets', scalars_and_purge),
    ('images', images),
    ('a half record at the end', half_record),
]))
