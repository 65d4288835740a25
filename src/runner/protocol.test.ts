import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  encodeFrame,
  FrameParser,
  frameType,
  fromSandboxTypes,
  PayloadReader,
  ProtocolError,
} from './protocol.ts';

type Seen = [number, number, unknown, string];

function parserInto(seen: Seen[], bytesMax = 10_000): FrameParser {
  return new FrameParser(fromSandboxTypes, bytesMax, (type, id, header, payload) =>
    seen.push([type, id, header, payload.toString()]),
  );
}

test('frames are decoded as they were encoded, however the stream is cut', () => {
  const frames = Buffer.concat([
    encodeFrame(frameType.done, 7, '{"a":"ü"}', ['pay', Buffer.from('load')], 7),
    encodeFrame(frameType.pong, 4_294_967_295, ''),
    encodeFrame(frameType.effects, 1, '[]', ['é'], 2),
  ]);
  const expected: Seen[] = [
    [frameType.done, 7, { a: 'ü' }, 'payload'],
    [frameType.pong, 4_294_967_295, undefined, ''],
    [frameType.effects, 1, [], 'é'],
  ];
  for (let size = 1; size <= frames.length; size += 1) {
    const seen: Seen[] = [];
    const parser = parserInto(seen);
    for (let at = 0; at < frames.length; at += size) parser.push(frames.subarray(at, at + size));
    assert.deepEqual(seen, expected, `cut into pieces of ${size}`);
  }
});

test('anything that is not a frame is a violation', () => {
  const good = encodeFrame(frameType.done, 1, '{}');
  const changed = (change: (bytes: Buffer) => void): Buffer => {
    const copy = Buffer.from(good);
    change(copy);
    return copy;
  };
  for (const bytes of [
    changed((b) => b.writeUInt32BE(0, 0)),
    changed((b) => b.writeUInt32BE(8, 0)),
    changed((b) => b.writeUInt32BE(10_001, 0)),
    changed((b) => b.writeUInt32BE(0xffffffff, 0)),
    changed((b) => b.writeUInt8(0, 4)),
    changed((b) => b.writeUInt8(frameType.init, 4)),
    changed((b) => b.writeUInt32BE(3, 9)),
    changed((b) => b.write('{x', 13)),
  ]) {
    assert.throws(() => parserInto([]).push(bytes), ProtocolError);
  }
});

test('a payload is read in parts whose lengths must match exactly', () => {
  const reader = new PayloadReader(Buffer.from('abcd'));
  assert.equal(reader.text(2), 'ab');
  assert.equal(reader.optionalText(-1), undefined);
  for (const bad of [3, -2, 1.5, '2', Number.NaN, undefined])
    assert.throws(() => reader.text(bad), ProtocolError);
  assert.throws(() => reader.end(), ProtocolError);
  assert.equal(reader.text(2), 'cd');
  reader.end();
});
