import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { eventMessageJson, eventSummaryJson, type StoredEvent } from './event.ts';
import { compareEventIds, formatEventId, nextEventId, parseEventId } from './event-id.ts';

function stored(value: unknown, fields: Partial<StoredEvent> = {}): StoredEvent {
  return {
    emitter_id: 'dc_1',
    channel: '',
    ms: 1_605_215_560_102,
    seq: 3,
    owner_id: 'o_1',
    emit_id: 'em',
    given_id: null,
    summary: null,
    ts_ms: null,
    event: JSON.stringify(value),
    deliver_channel: null,
    deliver_at_ms: null,
    hops: 0,
    ...fields,
  };
}

const summary = (event: StoredEvent, expand = false) =>
  JSON.parse(eventSummaryJson(event, { expand })) as Record<string, unknown>;

describe('an event summary', () => {
  test('has the id, the time, the event, and metadata with what was given', () => {
    assert.deepEqual(summary(stored({ a: 1 })), {
      id: '1605215560102-3',
      indexed_at_ms: 1_605_215_560_102,
      event: { a: 1 },
      metadata: { emit_id: 'em', name: '', emitter_id: 'dc_1' },
    });
    const given = { channel: '$in', given_id: 'g', summary: 's', ts_ms: 5, deliver_at_ms: 6 };
    assert.deepEqual(summary(stored(null, given)).metadata, {
      emit_id: 'em',
      name: '$in',
      emitter_id: 'dc_1',
      id: 'g',
      summary: 's',
      ts: 5,
      delivery_ts: 6,
    });
  });

  test('carries an event of 1 KB whole, and cuts a larger one to its first 1,000 bytes unless expanded', () => {
    const whole = 'x'.repeat(1022);
    assert.equal(summary(stored(whole)).event, whole);
    assert.equal(summary(stored(whole)).truncated, undefined);
    const larger = `${whole}x`;
    assert.equal(summary(stored(larger)).event, `"${'x'.repeat(999)}`);
    assert.equal(summary(stored(larger)).truncated, true);
    assert.equal(summary(stored(larger), true).event, larger);
    assert.equal(summary(stored(larger), true).truncated, undefined);
  });

  test('of what a workflow emitted holds it as raw_event, and the limit is for the emitted data', () => {
    const emitted = { emitter_id: 'p_1' };
    assert.deepEqual(summary(stored({ a: 1 }, emitted)).event, { raw_event: { a: 1 } });
    assert.deepEqual(summary(stored('x', { ...emitted, channel: 'orders' })).event, { raw_event: 'x' });
    const whole = 'x'.repeat(1022);
    assert.deepEqual(summary(stored(whole, emitted)).event, { raw_event: whole });
    const cut = summary(stored(`${whole}x`, emitted));
    assert.deepEqual(cut.event, { raw_event: `"${'x'.repeat(999)}` });
    assert.equal(cut.truncated, true);
    assert.deepEqual(summary(stored(`${whole}x`, emitted), true).event, { raw_event: `${whole}x` });
  });

  test('of an error of a workflow is the error event itself', () => {
    const error = { original_event: 1, error: { code: 'TypeError' } };
    const event = stored(error, { emitter_id: 'p_1', channel: '$errors' });
    assert.deepEqual(summary(event).event, error);
  });

  test('counts bytes, not characters, and never cuts a character in two', () => {
    // 1 + 2 n bytes: the cut at byte 1,000 goes through a character.
    const accents = summary(stored('é'.repeat(512)));
    assert.equal(accents.event, `"${'é'.repeat(499)}`);
    const smileys = summary(stored('🙂'.repeat(400)));
    assert.equal(smileys.event, `"${'🙂'.repeat(249)}`);
    assert.equal(summary(stored('🙂'.repeat(255))).truncated, undefined);
  });

  test('keeps a replacement character that the event itself has', () => {
    assert.equal(
      summary(stored(`${'x'.repeat(996)}\ufffd${'x'.repeat(100)}`)).event,
      `"${'x'.repeat(996)}\ufffd`,
    );
  });

  test('of any event is a prefix of at most 1,000 bytes, or the event itself', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 2_000 }), (text) => {
        const event = stored(text);
        const result = summary(event);
        if (Buffer.byteLength(event.event) <= 1024) return assert.equal(result.event, text);
        assert.equal(result.truncated, true);
        const cut = String(result.event);
        assert.ok(event.event.startsWith(cut));
        assert.ok(Buffer.byteLength(cut) <= 1000 && Buffer.byteLength(cut) > 1000 - 4);
      }),
    );
  });
});

test('an event message carries the whole event, its id and its metadata on one line', () => {
  const line = eventMessageJson(stored({ text: 'a\nb'.repeat(1_000) }));
  assert.equal(line.includes('\n'), false);
  assert.deepEqual(JSON.parse(line), {
    event: { text: 'a\nb'.repeat(1_000) },
    id: '1605215560102-3',
    indexed_at_ms: 1_605_215_560_102,
    metadata: { emit_id: 'em', name: '', emitter_id: 'dc_1' },
  });
});

test('line breaks between the tokens of an event are no line breaks of the message, also of one stored with them', () => {
  const line = eventMessageJson(stored(null, { event: '{\r\n"a":\n\n"x\\ny"\r}' }));
  assert.equal(/[\r\n]/.test(line), false);
  assert.deepEqual((JSON.parse(line) as { event: unknown }).event, { a: 'x\ny' });
});

describe('event ids', () => {
  test('are the millisecond and a sequence number within it', () => {
    assert.deepEqual(nextEventId({ ms: 5, seq: 7 }, 6), { ms: 6, seq: 0 });
    assert.deepEqual(nextEventId({ ms: 5, seq: 7 }, 5), { ms: 5, seq: 8 });
    assert.equal(formatEventId({ ms: 5, seq: 8 }), '5-8');
  });

  test('strictly increase whatever the clock does', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 2 ** 45 }), { minLength: 1 }), (clock) => {
        let last = { ms: 0, seq: 0 };
        for (const nowMs of clock) {
          const next = nextEventId(last, nowMs);
          assert.ok(compareEventIds(next, last) > 0);
          last = next;
        }
      }),
    );
  });

  test('are read back as they were written, and nothing else is one', () => {
    fc.assert(
      fc.property(fc.nat({ max: 10 ** 15 - 1 }), fc.nat({ max: 10 ** 15 - 1 }), (ms, seq) => {
        assert.deepEqual(parseEventId(formatEventId({ ms, seq }), 'after'), { ms, seq });
      }),
    );
    for (const text of [
      '',
      '1',
      '1-',
      '-1',
      '1-2-3',
      ' 1-2',
      '1-2\n',
      '0x1-2',
      '1e3-1',
      `${'1'.repeat(16)}-0`,
    ]) {
      assert.throws(() => parseEventId(text, 'start_id'), {
        code: 'invalid_event_id',
        details: { parameter: 'start_id' },
      });
    }
  });
});
