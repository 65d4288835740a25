import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { cpuMsOf } from '../../test/support/cpu-time.ts';
import { type EndpointRequest, requestEventJson } from './request-event.ts';

async function eventOf(request: Partial<EndpointRequest>): Promise<Record<string, unknown>> {
  const text = await requestEventJson(
    {
      method: 'POST',
      path: '/',
      queryString: '',
      url: 'example.com/',
      headers: {},
      body: Buffer.alloc(0),
      clientIp: '127.0.0.1',
      ...request,
    },
    async () => 'https://example.com/file',
  );
  return JSON.parse(text) as Record<string, unknown>;
}

describe('the event of a request', () => {
  test('JSON that is nested more than 500 levels deep stays text, which costs as little as other text', async () => {
    const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
    for (const type of ['application/json', 'application/vnd.x+json', '']) {
      const bodyOf = async (text: string) =>
        (await eventOf({ body: Buffer.from(text), headers: { 'content-type': type } })).body;
      assert.ok(Array.isArray(await bodyOf(nested(500))), type);
      assert.equal(await bodyOf(nested(501)), nested(501), type);
      assert.equal(await bodyOf(nested(200_000)), nested(200_000), type);
    }
  });

  test('is JSON with the text of the body, whatever bytes come under whatever content type', async () => {
    const types = [
      'application/json',
      'application/x-www-form-urlencoded',
      'multipart/form-data',
      'multipart/form-data; boundary=x',
      'multipart/form-data; boundary=',
      'text/plain',
      '',
      ';',
    ];
    const parts = fc
      .array(
        fc.constantFrom(
          '--x\r\n',
          '--x--\r\n',
          'content-disposition: form-data; name="a"\r\n',
          'content-disposition: form-data; name="f"; filename="f.txt"\r\n',
          'content-disposition: form-data\r\n',
          'content-type: text/plain\r\n',
          'content-transfer-encoding: base64\r\n',
          '\r\n',
          'value',
          '{"a":1}',
          'a=1&__proto__=2',
        ),
        { maxLength: 12 },
      )
      .map((lines) => Buffer.from(lines.join('')));
    const bytes = fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array));
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...types), fc.oneof(parts, bytes), async (type, body) => {
        const event = await eventOf({ headers: { 'content-type': type }, body });
        assert.equal(event.bodyRaw, body.toString('utf8'));
      }),
      { numRuns: 500 },
    );
  });

  test('has a form that breaks off within a file as text', async () => {
    const body = '--x\r\ncontent-disposition: form-data; name="a"; filename="f"\r\n\r\nnever ends';
    const event = await eventOf({
      headers: { 'content-type': 'multipart/form-data; boundary=x' },
      body: Buffer.from(body),
    });
    assert.equal(event.body, body);
  });

  test('has an unnamed file under a name of ours', async () => {
    const head = 'content-disposition: form-data; name="f"\r\ncontent-type: application/octet-stream';
    const event = await eventOf({
      headers: { 'content-type': 'multipart/form-data; boundary=x' },
      body: Buffer.from(`--x\r\n${head}\r\n\r\n${'y'.repeat(5_000)}\r\n--x--\r\n`),
    });
    const mimetype = 'application/octet-stream';
    assert.deepEqual(event.body, { f: { filename: 'file', mimetype, url: 'https://example.com/file' } });
  });

  test('has a form of excessively many fields as text, which takes no time', async () => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const part = '--x\r\ncontent-disposition: form-data; name="a"\r\n\r\n1\r\n';
    const multipart = { 'content-type': 'multipart/form-data; boundary=x' };
    const whole = await eventOf({ headers: multipart, body: Buffer.from(`${part.repeat(1_000)}--x--`) });
    assert.equal((whole.body as { a: string[] }).a.length, 1_000);
    const tooMany = `${part.repeat(1_001)}--x--`;
    assert.equal((await eventOf({ headers: multipart, body: Buffer.from(tooMany) })).body, tooMany);
    const few = await eventOf({ headers, body: Buffer.from('a=1&'.repeat(999)) });
    assert.equal((few.body as { a: string[] }).a.length, 999);
    const body = 'a&'.repeat(250_000);
    const tookMs = await cpuMsOf(async () =>
      assert.equal((await eventOf({ headers, body: Buffer.from(body) })).body, body),
    );
    assert.ok(tookMs < 2_000, `${tookMs} ms`);
  });

  test('has the query as text and lists, and no prototype can be set through it', async () => {
    const event = await eventOf({ queryString: 'a=1&a=2&b=&c&__proto__=x&constructor=y' });
    assert.equal(
      JSON.stringify(event.query),
      '{"a":["1","2"],"b":"","c":"","__proto__":"x","constructor":"y"}',
    );
  });
});
