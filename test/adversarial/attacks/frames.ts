import type { Ending } from '../attack-table.ts';

/** Bytes that code writes itself on the descriptors of the service, and how its call ends. */
export interface ForgedFrames {
  class: string;
  name: string;
  descriptor: 3 | 4;
  bytes: Buffer;
  ending: Ending;
}

/** A frame of the language between a process and the service. */
export function frame(type: number, id: number, header: string, payload = ''): Buffer {
  const [h, p] = [Buffer.from(header), Buffer.from(payload)];
  const prefix = Buffer.alloc(13);
  prefix.writeUInt32BE(9 + h.length + p.length, 0);
  prefix[4] = type;
  prefix.writeUInt32BE(id, 5);
  prefix.writeUInt32BE(h.length, 9);
  return Buffer.concat([prefix, h, p]);
}

/** A frame of the relay of connections. */
export function relayFrame(type: number, id: number, payload: string | Buffer = ''): Buffer {
  const body = Buffer.from(payload as string);
  const prefix = Buffer.alloc(9);
  prefix.writeUInt32BE(body.length, 0);
  prefix[4] = type;
  prefix.writeUInt32BE(id, 5);
  return Buffer.concat([prefix, body]);
}

export const noEffects = '"emits":[],"db":[],"logs":[],"dropped":0';
const emitting = (length: number): string =>
  `{"emits":[[${length},null,0,null,null,"",null]],"db":[],"logs":[],"dropped":0}`;

const forged: readonly (readonly [name: string, bytes: Buffer])[] = [
  ['no frame at all', Buffer.from('garbage that is no frame at all')],
  ['a frame of two gigabytes', Buffer.from([0x7f, 0xff, 0xff, 0xff, 1])],
  ['an unknown type', frame(99, 2, '{}')],
  ['a frame that only the service sends', frame(1, 2, '{}')],
  ['an event longer than the frame', frame(19, 2, emitting(5), 'ab')],
  ['an event of negative length', frame(19, 2, emitting(-5))],
  ['effects of another form', frame(19, 2, '{"emits":5}')],
  ['a header that is no JSON', frame(19, 2, 'not json')],
  ['a header that is null', frame(19, 2, 'null')],
  ['a status that does not exist', frame(21, 2, `{"status":"odd",${noEffects},"result":-1}`)],
  ['a result longer than the frame', frame(21, 2, `{"status":"finished",${noEffects},"result":9999999}`)],
  ['an answer of status 1000', frame(20, 2, '{"status":1000,"headers":{}}')],
  ['an answer of status 101', frame(20, 2, '{"status":101,"headers":{}}')],
  ['an answer with a header of two lines', frame(20, 2, '{"status":200,"headers":{"a":"b\\r\\nc: d"}}')],
  ['the result of another call', frame(21, 4_000_000, `{"status":"finished",${noEffects},"result":-1}`)],
  ['an error of another form', frame(22, 2, '{"error":[1,2]}')],
  ['an event that is no JSON', frame(19, 2, emitting(2), '}{')],
  [
    'a header that pollutes prototypes',
    frame(19, 2, '{"__proto__":{"polluted":1},"emits":{"__proto__":[]}}'),
  ],
  ['a header longer than the frame', Buffer.from([0, 0, 0, 10, 19, 0, 0, 0, 2, 0, 0, 0xff, 0xff, 0])],
  ['a flood of events', Buffer.concat(Array.from({ length: 2000 }, () => frame(19, 2, emitting(1), '1')))],
];

/** Types: 1 open, 2 opened, 3 error, 4 data, 5 end, 6 reset, 7 window. */
const relayed: readonly (readonly [name: string, bytes: Buffer])[] = [
  ['garbage', Buffer.alloc(4096, 255)],
  ['a frame of four gigabytes', Buffer.from([0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 1])],
  ['an unknown type', relayFrame(99, 1)],
  ['a frame that only the service sends', relayFrame(2, 1)],
  ['a request that is no JSON', relayFrame(1, 101, '{')],
  [
    'two requests of one number',
    Buffer.concat([
      relayFrame(1, 103, '{"host":"192.0.2.1","port":9}'),
      relayFrame(1, 103, '{"host":"192.0.2.1","port":9}'),
    ]),
  ],
  [
    'data beyond the window',
    Buffer.concat([
      relayFrame(1, 105, '{"host":"192.0.2.1","port":9}'),
      ...Array.from({ length: 40 }, () => relayFrame(4, 105, Buffer.alloc(65_536))),
    ]),
  ],
  [
    'a window of four gigabytes',
    Buffer.concat([
      relayFrame(1, 107, '{"host":"192.0.2.1","port":9}'),
      relayFrame(7, 107, Buffer.alloc(4, 255)),
    ]),
  ],
];

export const forgedFrames: readonly ForgedFrames[] = [
  ...forged.map(([name, bytes]) => ({
    ...{ class: 'forged frames', name, bytes, descriptor: 3 as const },
    ending: name === 'a flood of events' ? 'limit_exceeded' : 'exited',
  })),
  ...relayed.map(([name, bytes]) => ({
    ...{ class: 'forged frames of the relay', name, bytes, descriptor: 4 as const, ending: 'exited' },
  })),
];
