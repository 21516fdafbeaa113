# SPDX-License-Identifier: Apache-2.0
"""stoke report: the page of a run, whatever became of the run."""
import html.parser
import os
import re
import sys
import xml.etree.ElementTree

import made_up_run
from cli import contains, equal, make_set, path, stoke, stoke_json, tap

VOID = {'meta', 'img', 'br', 'hr'}


class Page(html.parser.HTMLParser):
    """Checks that tags are closed in order, and keeps addresses and headings."""
    def __init__(self, text):
        super().__init__()
        self.open, self.addresses, self.tags, self.words = [], [], {}, ''
        self.feed(text)
        assert not self.open, f'not closed: {self.open}'

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            assert not name.startswith('on'), f'<{tag} {name}>'
            if name in ('src', 'href', 'xlink:href', 'action'):
                self.addresses.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f'</{tag}> closes {self.open[-3:]}'
        self.open.pop()

    def handle_data(self, data):
        self.words += data


def page(folder):
    with open(os.path.join(folder, 'report.html'), encoding='utf-8') as stream:
        text = stream.read()
    seen = Page(text)
    assert 'script' not in seen.tags and 'link' not in seen.tags and 'iframe' not in seen.tags, seen.tags
    assert all(a.startswith('data:image/') for a in seen.addresses), [a[:40] for a in seen.addresses]
    assert not re.search(r'@import|url\(', text)
    return text, seen


def charts(folder):
    names = sorted(os.listdir(os.path.join(folder, 'curves')))
    equal(names, ['loss.svg', 'lr.svg', 'miou.svg', 'speed.svg'])
    for name in names:
        root = xml.etree.ElementTree.parse(os.path.join(folder, 'curves', name)).getroot()
        equal(root.tag, '{http://www.w3.org/2000/svg}svg')


def whole_run():
    folder = path('runs', 'whole')
    made_up_run.write(folder, made_up_run.lines())
    done = stoke('report', folder)
    equal(done.stdout, f'{folder}/report.html\n')
    contains(done.stderr, 'browser', f'{folder}/curves')
    text, seen = page(folder)
    charts(folder)
    contains(seen.words, 'Validation scores', 'Confusion', 'Worst images', 'Where time went', 'schedule: poly', 'AMD EPYC')
    assert 'a comment' not in seen.words
    equal(seen.tags['svg'], 11)  # five charts with a frame inside each; two of them stand in one, speed
    equal(stoke('report', folder, '--quiet').stderr, '')
    equal(open(os.path.join(folder, 'report.html'), encoding='utf-8').read(), text, 'made again')


def as_json():
    folder = path('runs', 'json')
    made_up_run.write(folder, made_up_run.lines(steps=50))
    answer = stoke_json('report', folder + '/')
    equal(answer['report'], f'{folder}/report.html')
    assert os.path.exists(answer['report']) and all(map(os.path.exists, answer['curves'])), answer
    equal(len(answer['curves']), 4)


def still_going():
    folder = path('runs', 'going')
    made_up_run.write(folder, made_up_run.lines(ended=False), config=None)
    with open(os.path.join(folder, 'log.jsonl'), 'a', encoding='utf-8') as out:
        out.write('{"kind": "step", "step": 9')
    stoke('report', folder)
    contains(page(folder)[1].words, 'Not ended: at step 900 of 900', 'stoke train --resume')


def without_validation():
    folder = path('runs', 'blind')
    made_up_run.write(folder, made_up_run.lines(val=0))
    stoke('report', folder)
    contains(page(folder)[1].words, 'no validation images', 'training loss at the end')


def many_classes():
    folder = path('runs', 'many')
    made_up_run.write(folder, made_up_run.lines(steps=100, classes=150, evals=2))
    stoke('report', folder)
    contains(page(folder)[1].words, 'class 149')
    made_up_run.write(folder, made_up_run.lines(steps=100, classes=40, evals=2))
    stoke('report', folder)
    contains(page(folder)[0], 'class="matrix small"')


def hostile_names():
    folder = path('runs', '<i>&amp;')
    names = ['<script>alert(1)</script>', '"><img src=x onerror=y>', '\u202e\x01', "'", 'x' * 3000]
    made_up_run.write(folder, made_up_run.lines(steps=100, classes=5, evals=2, names=names), config='a: </pre><script>\n')
    stoke('report', folder)
    contains(page(folder)[1].words, 'alert(1)', '<i>&amp;')


def misuse():
    contains(stoke('report', code=2).stderr, 'runs/NAME')
    contains(stoke('report', path('nowhere'), code=1).stderr, 'nowhere', 'there is no such run')
    stoke('report', 'a', 'b', code=2)
    answer = stoke_json('report', path('nowhere'), code=1)
    contains(answer['error']['message'], 'nowhere')
    os.makedirs(path('runs', 'garbage'), exist_ok=True)
    with open(path('runs', 'garbage', 'log.jsonl'), 'wb') as out:
        out.write(os.urandom(10000))
    contains(stoke('report', path('runs', 'garbage'), code=1).stderr, 'log.jsonl')


def cannot_be_written():
    folder = path('runs', 'sealed')
    made_up_run.write(folder, made_up_run.lines(steps=50))
    os.makedirs(os.path.join(folder, 'report.html'))
    contains(stoke('report', folder, code=1).stderr, 'report.html')


def files_of_others():
    """A page and a curve of somebody's own stay; --force replaces them and says so, and what was drawn here is drawn again."""
    folder = path('runs', 'kept')
    made_up_run.write(folder, made_up_run.lines(steps=50))
    stoke('report', folder)
    stoke('report', folder)
    for name in ('report.html', 'curves/loss.svg'):
        with open(os.path.join(folder, name), 'w') as out:
            out.write('mine')
        contains(stoke('report', folder, code=1).stderr, name, 'left as it is', f'stoke report {folder} --force')
        with open(os.path.join(folder, name)) as kept:
            equal(kept.read(), 'mine', name)
        contains(stoke('report', folder, '--force').stderr, f'--force: {folder}/{name} is replaced')
    stoke('report', folder)


def training_leaves_files_of_others():
    """The run goes on and says what it did not write."""
    data = make_set('drawn', count=8, size='32x32', classes=3)
    stoke('train', data, '--size', '32', '--batch', '2', '--steps', '4', '--stop-after', '2', '--name', 'mine', '--threads', '1', '--quiet')
    page = path('runs', 'mine', 'report.html')
    with open(page, 'w') as out:
        out.write('mine')
    done = stoke('train', '--resume', path('runs', 'mine'))
    contains(done.stderr, 'goes on without the report', 'report.html', 'left as it is')
    with open(page) as kept:
        equal(kept.read(), 'mine')


sys.exit(tap.run([
    ('a whole run', whole_run),
    ('as JSON', as_json),
    ('a run that is still going', still_going),
    ('a run without validation', without_validation),
    ('many classes', many_classes),
    ('names that would be tags', hostile_names),
    ('misuse', misuse),
    ('a report that cannot be written', cannot_be_written),
    ('files of others', files_of_others),
    ('training leaves files of others', training_leaves_files_of_others),
]))
