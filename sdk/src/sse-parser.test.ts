import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type SseMessage, SseParser } from './sse-parser.ts';

function parse(pieces: Iterable<string>): SseMessage[] {
  const parser = new SseParser();
  return [...pieces].flatMap((piece) => parser.push(piece));
}

const text =
  '\ufeff:hello\n\nid: 1\r\ndata: a\r\ndata:b\r\n\r\nevent: gap\rdata:  c\r\rretry: 5\ndata\nnothing: x\n\nid: 9\n\ndata: last';

test('messages are the same wherever the pieces of a stream end', () => {
  const expected = [
    { event: 'message', data: 'a\nb', id: '1' },
    { event: 'gap', data: ' c', id: undefined },
    { event: 'message', data: '', id: undefined },
  ];
  assert.deepEqual(parse([text]), expected);
  assert.deepEqual(parse(text), expected, 'one character at a time');
  for (let at = 0; at <= text.length; at += 1)
    assert.deepEqual(parse([text.slice(0, at), text.slice(at)]), expected, `cut at ${at}`);
});

test('a message without data is none, and its id is not that of the next one', () => {
  assert.deepEqual(parse(['id: 1\nevent: x\n\ndata: y\n\n']), [
    { event: 'message', data: 'y', id: undefined },
  ]);
  assert.deepEqual(parse(['id: 1\u0000\ndata: y\n\n']), [{ event: 'message', data: 'y', id: undefined }]);
});

test('a message that does not end is refused before it takes all memory', () => {
  const parser = new SseParser();
  const line = 'x'.repeat(1024 * 1024);
  assert.throws(() => {
    for (let count = 0; count < 64; count += 1) parser.push(line);
  }, RangeError);
  const lines = new SseParser();
  assert.throws(() => {
    for (let count = 0; count < 64; count += 1) lines.push(`data: ${line}\n`);
  }, RangeError);
});
