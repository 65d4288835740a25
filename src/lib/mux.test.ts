import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type Duplex, duplexPair } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { type ChannelHandler, type MuxChannel, type MuxFault, MuxSession } from './mux.ts';
import { dataBytesMax, type Frame, FrameParser, FrameType, frameHeader } from './mux-frame.ts';

function frame(type: number, id: number, payload: string | Buffer = ''): Buffer {
  const bytes = Buffer.from(payload);
  return Buffer.concat([frameHeader(type, id, bytes.length), bytes]);
}

/** Records the calls of a channel. `take` says whether the handler gives bytes back immediately. */
class Recorder implements ChannelHandler {
  readonly chunks: Buffer[] = [];
  readonly log: string[] = [];
  fault: MuxFault | undefined;
  channel: MuxChannel | undefined;
  held = 0;
  #take: boolean;

  constructor(take = true) {
    this.#take = take;
  }

  opened(answer: unknown): void {
    this.log.push(`opened ${JSON.stringify(answer)}`);
  }
  data(chunk: Buffer, cost: number): void {
    this.chunks.push(chunk);
    if (this.#take) this.channel?.release(cost);
    else this.held += cost;
  }
  end(): void {
    this.log.push('end');
  }
  closed(fault: MuxFault | undefined): void {
    this.fault = fault;
    this.log.push(`closed ${fault?.code ?? 'in order'}`);
  }
  get bytes(): Buffer {
    return Buffer.concat(this.chunks);
  }
}

/** Two sessions joined in memory; the answering one accepts everything unless `decide` says otherwise. */
function pair(
  decide: (channel: MuxChannel, request: unknown) => void = (channel) => channel.accept({}),
  take = true,
) {
  const [left, right] = duplexPair();
  const answers: Recorder[] = [];
  const violations: string[] = [];
  const asking = new MuxSession(left, {
    ids: 'odd',
    onViolation: (reason) => violations.push(`asking: ${reason}`),
  });
  const answering = new MuxSession(right, {
    ids: 'even',
    channelsMax: 4,
    onViolation: (reason) => violations.push(reason),
    onOpen: (channel, request) => {
      const recorder = new Recorder(take);
      recorder.channel = channel;
      answers.push(recorder);
      decide(channel, request);
      return recorder;
    },
  });
  const open = (request: object = {}): Recorder & { channel: MuxChannel } => {
    const recorder = new Recorder();
    const channel = asking.open(request, recorder);
    return Object.assign(recorder, { channel });
  };
  return { asking, answering, answers, violations, open, left, right };
}

async function settle(): Promise<void> {
  for (let i = 0; i < 50; i += 1) await turn();
}

function written(channel: MuxChannel, chunk: Buffer): Promise<MuxFault | undefined> {
  return new Promise((resolve) => channel.write(chunk, resolve));
}

test('a channel is asked for, answered, carries bytes both ways and ends in order', async () => {
  const requests: unknown[] = [];
  const { open, answers, asking, answering } = pair((channel, request) => {
    requests.push(request);
    channel.accept({ ok: 1 });
  });
  const asked = open({ host: 'h', port: 1 });
  await settle();
  const payload = randomBytes(1_000_000);
  const sent = written(asked.channel, payload);
  answers[0]?.channel?.write(Buffer.from('back'), () => {});
  await sent;
  asked.channel.end();
  await settle();
  assert.deepEqual(asked.log, ['opened {"ok":1}']);
  answers[0]?.channel?.end();
  await settle();
  assert.deepEqual(requests, [{ host: 'h', port: 1 }]);
  assert.ok(answers[0]?.bytes.equals(payload));
  assert.equal(String(asked.bytes), 'back');
  assert.deepEqual(asked.log, ['opened {"ok":1}', 'end', 'closed in order']);
  assert.deepEqual(answers[0]?.log, ['end', 'closed in order']);
  assert.deepEqual([asking.channels, answering.channels], [0, 0]);
});

test('a refusal carries its code and message', async () => {
  const { open, answering } = pair((channel) => channel.fail({ code: 'EACCES', message: 'not there' }));
  const asked = open();
  await settle();
  assert.deepEqual(asked.fault, { code: 'EACCES', message: 'not there' });
  assert.deepEqual([asked.log, answering.channels], [['closed EACCES'], 0]);
});

test('a reader that does not read stops its own channel at one window, and no other', async () => {
  const { open, answers, left, right } = pair(undefined, false);
  const slow = open();
  const other = open();
  await settle();
  let left_ = 10;
  for (let i = 0; i < 10; i += 1) slow.channel.write(randomBytes(100_000), () => (left_ -= 1));
  await settle();
  const stalled = answers[0];
  assert.ok(stalled !== undefined && stalled.held <= 262_144 && stalled.held > 200_000);
  assert.ok(left_ >= 7);
  await written(other.channel, Buffer.from('quick'));
  await settle();
  assert.equal(String(answers[1]?.bytes), 'quick');
  assert.ok(left.writableLength + right.writableLength < 100_000);
  // Given back, the rest follows.
  for (let i = 0; i < 10; i += 1) {
    const { held } = stalled;
    stalled.held = 0;
    stalled.channel?.release(held);
    await settle();
  }
  assert.equal(stalled.bytes.length, 1_000_000);
  assert.equal(left_, 0);
});

test('a reset ends both sides, and writes that can no longer leave say so', async () => {
  const { open, answers, violations } = pair(undefined, false);
  const asked = open();
  await settle();
  const stuck = written(asked.channel, randomBytes(1_000_000));
  await settle();
  answers[0]?.channel?.reset();
  assert.equal((await stuck)?.code, 'ECONNRESET');
  assert.equal((await written(asked.channel, Buffer.from('x')))?.code, 'ECONNRESET');
  await settle();
  assert.deepEqual([asked.log.at(-1), answers[0]?.log], ['closed ECONNRESET', ['closed ECONNRESET']]);
  assert.deepEqual(violations, []);
});

test('data in flight to a channel that was just closed is no violation, from either side', async () => {
  const { open, answers, violations } = pair((channel) => {
    channel.accept({});
    channel.write(randomBytes(200_000), () => {});
  });
  for (let i = 0; i < 20; i += 1) {
    const asked = open();
    // Before the answer, which already has data behind it.
    if (i % 4 === 0) asked.channel.reset();
    await settle();
    asked.channel.write(randomBytes(200_000), () => {});
    if (i % 2 === 0) answers.at(-1)?.channel?.reset();
    else asked.channel.reset();
    await settle();
  }
  assert.deepEqual(violations, []);
});

test('more channels than allowed are refused with EMFILE, and the session continues', async () => {
  const { open, answers } = pair();
  const asked = Array.from({ length: 10 }, () => open());
  await settle();
  assert.equal(asked.filter((one) => one.log[0] === 'closed EMFILE').length, 6);
  asked[0]?.channel.reset();
  await settle();
  assert.deepEqual(open().log, []);
  await settle();
  assert.equal(answers.length, 5);
});

test('when the socket ends, every channel ends with ECONNRESET on both sides', async () => {
  const { open, answers, asking, left } = pair();
  const asked = open();
  await settle();
  left.destroy();
  await settle();
  assert.deepEqual([asked.fault?.code, answers[0]?.fault?.code], ['ECONNRESET', 'ECONNRESET']);
  const late = open();
  await settle();
  assert.deepEqual([late.fault?.code, asking.closed], ['ECONNRESET', true]);
});

const json = JSON.stringify({ host: 'h', port: 1 });
const windowOf = (bytes: number): Buffer => {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(bytes);
  return payload;
};
const full = frame(FrameType.data, 1, Buffer.alloc(dataBytesMax));
const breaches: Record<string, Buffer[]> = {
  'random bytes': [Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n')],
  'a giant frame': [frameHeader(FrameType.data, 1, 0x7fff_ffff)],
  'data larger than a frame may be': [
    frame(FrameType.open, 1, json),
    frameHeader(FrameType.data, 1, dataBytesMax + 1),
  ],
  'a control frame as large as data': [frameHeader(FrameType.open, 1, 5_000)],
  'type 0': [frame(0, 1)],
  'type 8': [frame(8, 1)],
  'a channel id used twice': [frame(FrameType.open, 1, json), frame(FrameType.open, 1, json)],
  'a channel id that goes back': [frame(FrameType.open, 3, json), frame(FrameType.open, 1, json)],
  'an id of the other side': [frame(FrameType.open, 2, json)],
  'a request that is no JSON': [frame(FrameType.open, 1, '{')],
  'data for a channel never opened': [frame(FrameType.data, 1, 'x')],
  'end for a channel never opened': [frame(FrameType.end, 2)],
  'an answer to its own request': [frame(FrameType.open, 1, json), frame(FrameType.opened, 1, '{}')],
  'data after end': [frame(FrameType.open, 1, json), frame(FrameType.end, 1), frame(FrameType.data, 1, 'x')],
  'end after end': [frame(FrameType.open, 1, json), frame(FrameType.end, 1), frame(FrameType.end, 1)],
  'more data than the window': [frame(FrameType.open, 1, json), full, full, full, full],
  'small frames beyond the window': [
    frame(FrameType.open, 1, json),
    ...Array.from({ length: 520 }, () => frame(FrameType.data, 1, 'x')),
  ],
  'window for nothing': [frame(FrameType.open, 1, json), frame(FrameType.window, 1, windowOf(1))],
  'a window of three bytes': [frame(FrameType.open, 1, json), frame(FrameType.window, 1, 'abc')],
  'an error that is no JSON': [frame(FrameType.open, 1, json), frame(FrameType.error, 1, 'x')],
  'an error without a code': [frame(FrameType.open, 1, json), frame(FrameType.error, 1, '{}')],
  'data for a closed channel, for ever': [frame(FrameType.open, 1, json), frame(FrameType.reset, 1), full],
};

for (const [what, frames] of Object.entries(breaches)) {
  test(`a peer that sends ${what} is reported once and cut off`, async () => {
    const { peer, violations, session } = hostile();
    for (const bytes of frames) peer.write(bytes);
    peer.write(frame(FrameType.open, 99, json));
    await settle();
    assert.equal(violations.length, 1);
    assert.equal(session.closed, true);
    assert.equal(session.channels, 0);
  });
}

test('what a breach is does not depend on how the bytes are cut', async () => {
  const { peer, violations } = hostile();
  for (const byte of Buffer.concat(breaches['data after end'] ?? [])) peer.write(Buffer.from([byte]));
  await settle();
  assert.deepEqual(violations, ['DATA after END']);
});

function hostile(): { peer: Duplex; violations: string[]; session: MuxSession } {
  const [peer, right] = duplexPair();
  peer.on('error', () => {}).resume();
  const violations: string[] = [];
  const session = new MuxSession(right, {
    ids: 'even',
    onViolation: (reason) => violations.push(reason),
    onOpen: (channel) => {
      channel.accept({});
      return new Recorder(false);
    },
  });
  return { peer, violations, session };
}

test('a peer that sends requests and never reads is no longer read once enough waits for it', async () => {
  const [peer, right] = duplexPair();
  peer.pause();
  const session = new MuxSession(right, { ids: 'even', channelsMax: 1, onOpen: () => new Recorder() });
  let sent = 0;
  while (sent < 200_000 && peer.writableLength < 1_000_000) {
    peer.write(frame(FrameType.open, 2 * sent + 1, json));
    sent += 1;
    if (sent % 1_000 === 0) await turn();
  }
  assert.ok(peer.writableLength >= 1_000_000, 'the requests must pile up on the side of the peer');
  assert.ok(right.writableLength < 3_000_000);
  session.close();
});

test('frames come out as they went in, however the bytes are cut', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 1, max: 7 }), fc.uint8Array({ maxLength: 300 })), { maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 20 }),
      (frames, cuts) => {
        const bytes = Buffer.concat(
          frames.map(([type, payload], index) => frame(type, index, Buffer.from(payload))),
        );
        const seen: Frame[] = [];
        const parser = new FrameParser((one) => seen.push(one));
        for (let at = 0, i = 0; at < bytes.length; i += 1) {
          const size = cuts[i % cuts.length] ?? 1;
          parser.push(bytes.subarray(at, at + size));
          at += size;
        }
        const expected = frames.map(([type, payload], id) => ({ type, id, payload: Buffer.from(payload) }));
        assert.deepEqual(seen, expected);
      },
    ),
  );
});
