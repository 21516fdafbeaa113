# SPDX-License-Identifier: Apache-2.0
"""stoke plan: a network's step as it is recorded: sums that agree with the plan, lives that make sense, a picture."""
import os
import sys
import xml.etree.ElementTree

from cli import contains, equal, path, stoke, stoke_json, tap


def sums_agree():
    for more in ([], ['--memory', 'lean'], ['--memory', 'min'], ['--freeze-encoder'], ['--forward'], ['--precision', 'bf16'],
                 ['--forward', '--precision', 'bf16', '--classes', 150]):
        got = stoke_json('plan', 'b0', '--batch', 2, '--size', '64x96', *more)
        equal(sum(op['flops'] for op in got['ops']), got['flops'])
        equal(sum(op['flops'] for op in got['ops'] if op['phase'] == 'forward'), got['forward_flops'])
        for number, op in enumerate(got['ops']):
            equal(op['live_bytes'], sum(t['bytes'] for t in got['tensors'] if t['first'] <= number <= t['last']))
        most = max(op['live_bytes'] for op in got['ops'])
        assert most <= got['tensors_bytes'] <= 1.05 * most, (more, most, got['tensors_bytes'])
        equal(sum(t['bytes'] for t in got['tensors'] if t['kept']), got['kept_bytes'])
        assert all(t['at'] + t['bytes'] <= got['tensors_bytes'] for t in got['tensors'])
        phases = sorted({op['phase'] for op in got['ops']})
        equal(phases, ['forward'] if '--forward' in more else ['backward', 'forward', 'loss'])


def as_bench_step_plans():
    """The same numbers as of the network that is opened and run."""
    asked = ['--batch', 2, '--size', 64]
    plan = stoke_json('plan', 'b1', *asked)
    step = stoke_json('bench', 'step', '--model', 'b1', *asked, '--dry-run')
    equal(stoke_json('plan', '--model', 'mit_b1', *asked), plan)  # as the other commands name it
    equal(plan['flops'], step['flops'])
    equal(plan['parameter_count'], step['parameter_count'])
    equal(plan['kept_bytes'], step['plan']['activations_bytes'])


def less_is_kept():
    kept = [stoke_json('plan', 'b0', '--memory', mode)['kept_bytes'] for mode in ('plain', 'lean', 'min')]
    assert kept[0] > kept[1] > kept[2] > 0, kept
    equal(stoke_json('plan', 'b0', '--forward')['kept_bytes'], 0)


def for_people():
    text = stoke('plan', 'b0').stdout
    contains(text, 'SegFormer b0, 4 x 256x256, 19 classes, fp32', 'linear weight', 'attention backward',
             'kept for the backward pass', 'memory peaks at operation', 'Memory of tensors over a step')
    contains(stoke('plan', '--ops').stdout, 'segformer.encoder.block.0.0.attention.self.query', '16384 x 32 to 32')


def a_picture():
    picture = path('plan.svg')
    stoke('plan', 'b0', '--batch', 1, '--svg', picture)
    assert xml.etree.ElementTree.parse(picture).getroot().tag.endswith('svg')
    stoke('plan', 'b0', '--batch', 1, '--svg', picture)  # its own picture is drawn again
    foreign = path('foreign.svg')
    with open(foreign, 'w', encoding='utf-8') as out:
        out.write('mine')
    contains(stoke('plan', 'b0', '--svg', foreign, code=1).stderr, 'foreign.svg')
    equal(open(foreign, encoding='utf-8').read(), 'mine')
    stoke('plan', 'b0', '--batch', 1, '--svg', foreign, '--force')
    assert os.path.getsize(foreign) > 1000


def refusals():
    contains(stoke('plan', 'b9', code=2).stderr, 'b0, b1, b2, b3, b4, b5')
    contains(stoke('plan', 'b0', '--task', 'restore', code=2).stderr, 'resnet restores')
    contains(stoke('plan', 'b0', '--size', 8, code=2).stderr, '29')
    contains(stoke('plan', 'b0', 'b1', code=2).stderr, 'b1')
    contains(stoke('plan', 'b0', '--model', 'b1', code=2).stderr, 'twice', "'b0'", '--model b1')


sys.exit(tap.run([
    ('sums agree', sums_agree),
    ('as bench step plans', as_bench_step_plans),
    ('less is kept', less_is_kept),
    ('for people', for_people),
    ('a picture', a_picture),
    ('refusals', refusals),
]))
