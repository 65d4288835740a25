import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { FrameWriter } from './frame-writer.ts';
import { FrameParser, frameType } from './protocol.ts';

test('small and large frames arrive whole, with all parts of their payloads, in the order in which they were sent', async () => {
  const socket = new PassThrough({ highWaterMark: 10_000_000 });
  const arrived: [number, unknown, string][] = [];
  const parser = new FrameParser(
    new Set(Object.values(frameType)),
    10_000_000,
    (_type, callId, header, payload) => {
      arrived.push([callId, header, payload.toString()]);
    },
  );
  socket.on('data', (chunk: Buffer) => parser.push(chunk));
  const frames = new FrameWriter(socket as unknown as Socket);
  const large = 'é'.repeat(50_000);
  const bytes = Buffer.from('y'.repeat(70_000));
  const send = (id: number, payload: (string | Uint8Array)[]) => {
    const length = payload.reduce((sum, part) => sum + Buffer.byteLength(part), 0);
    frames.send(frameType.call, id, JSON.stringify({ id }), payload, length);
  };
  send(1, ['small']);
  send(2, [large, bytes, 'end']);
  send(3, []);
  await turnOfLoop();
  send(4, ['a', 'b']);
  send(5, ['c']);
  await turnOfLoop();
  assert.deepEqual(arrived, [
    [1, { id: 1 }, 'small'],
    [2, { id: 2 }, `${large}${bytes}end`],
    [3, { id: 3 }, ''],
    [4, { id: 4 }, 'ab'],
    [5, { id: 5 }, 'c'],
  ]);
});
