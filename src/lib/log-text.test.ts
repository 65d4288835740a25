import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logText } from './log-text.ts';
import { logFormat } from './logger.ts';

const time = '2026-11-22T10:11:12.345Z';
const clock = new Date(time).toTimeString().slice(0, 8);

test('a line has the time, what happened, and its fields', () => {
  const line = JSON.stringify({ level: 30, time, node: 'node_1', released: 2, msg: 'job.released' });
  assert.equal(logText(`${line}\n`), `${clock} job.released node=node_1 released=2\n`);
});

test('levels above info are named, and values that are no plain word are quoted', () => {
  const line = JSON.stringify({ level: 40, time, reason: 'no room', slowest: { ms: 3 }, msg: 'a.b' });
  assert.equal(logText(line), `${clock} WARN a.b reason="no room" slowest={"ms":3}\n`);
});

test('an error is shown with its stack, and nothing in it reaches the terminal as a command', () => {
  const err = {
    type: 'Error',
    message: 'x',
    stack: 'Error: "x"\u001b[2J\u009b2J\n    at a.ts:1',
    code: 'E_X',
  };
  assert.equal(
    logText(JSON.stringify({ level: 50, time, err, msg: 'http.request-failed' })),
    `${clock} ERROR http.request-failed\n  Error: "x"\\u001b[2J\\u009b2J\n      at a.ts:1\n  code=E_X\n`,
  );
});

test('a field cannot look like a line of its own', () => {
  const text = logText(JSON.stringify({ level: 30, time, name: 'a\n10:00:00 service.stopped', msg: 'a.b' }));
  assert.equal(text.split('\n').length, 2);
});

test('what is no JSON stays as it is', () => {
  assert.equal(logText('hello\n'), 'hello\n');
});

test('the log is text on a terminal and JSON elsewhere, unless the operator chose', () => {
  assert.equal(logFormat('auto', { isTTY: true }), 'text');
  assert.equal(logFormat('auto', {}), 'json');
  assert.equal(logFormat('json', { isTTY: true }), 'json');
  assert.equal(logFormat('text', {}), 'text');
});
