import type { AppTest } from './app-definition.ts';
import { checkTemplate, checkUrlTemplate, type KnownFields } from './check-template.ts';
import { expected, missing, type ObjectReader } from './object-reader.ts';

const headersMax = 20;
const bodyCharactersMax = 10_000;

/** Headers that belong to the connection, not to the request. */
const connectionHeaders = ['host', 'connection', 'content-length', 'transfer-encoding', 'upgrade', 'expect'];

/** `test_request` of an app; `fields`: what an account of it has. Throws as ObjectReader does. */
export function parseTest(reader: ObjectReader, fields: KnownFields): AppTest {
  const kind = reader.choice('kind', ['http', 'postgresql', 'mysql', 'ssh', 'tcp'], 'http');
  const test: AppTest =
    kind === 'http'
      ? parseHttpTest(reader, fields)
      : { kind, host: templateOf(reader, 'host', fields), port: portOf(reader, fields) };
  reader.end();
  return test;
}

function parseHttpTest(reader: ObjectReader, fields: KnownFields): AppTest {
  const url = checkUrlTemplate(reader.text('url'), reader.placeOf('url'), fields, { literalDomain: false });
  const method = reader.choice('method', ['GET', 'POST'], 'GET');
  const headers = reader.texts('headers', headersMax);
  for (const [name, value] of Object.entries(headers)) {
    const place = `${reader.placeOf('headers')}.${name}`;
    if (!/^[A-Za-z0-9-]{1,100}$/.test(name) || connectionHeaders.includes(name.toLowerCase())) {
      throw expected(place, 'the name of a header of the request');
    }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there.
    if (/[\u0000-\u001f\u007f]/.test(value)) throw expected(place, 'one line');
    checkTemplate(value, place, fields);
  }
  const body = bodyOf(reader, fields);
  if (body !== undefined && method === 'GET') throw expected(reader.placeOf('body'), 'nothing with GET');
  const basic = reader.object('basic');
  const test: AppTest = {
    kind: 'http',
    method,
    url,
    headers,
    body,
    basic: basic && {
      username: checkTemplate(basic.optionalText('username') ?? '', basic.placeOf('username'), fields),
      password: checkTemplate(basic.optionalText('password') ?? '', basic.placeOf('password'), fields),
    },
    statuses: reader.list('statuses', 20, statusItem),
    expect: expectOf(reader),
  };
  basic?.end();
  return test;
}

/** A text, or an object that is sent as JSON. */
function bodyOf(reader: ObjectReader, fields: KnownFields): string | undefined {
  const raw = reader.raw('body');
  if (raw === undefined) return undefined;
  const place = reader.placeOf('body');
  const body = typeof raw === 'object' ? JSON.stringify(raw) : raw;
  if (typeof body !== 'string' || body.length > bodyCharactersMax) {
    throw expected(
      place,
      `a text or an object of at most ${bodyCharactersMax.toLocaleString('en')} characters`,
    );
  }
  return checkTemplate(body, place, fields);
}

function expectOf(reader: ObjectReader): { path: string; equals: unknown } | undefined {
  const expectation = reader.object('expect');
  if (expectation === undefined) return undefined;
  const path = expectation.text('path', 200);
  const equals = expectation.raw('equals');
  const place = expectation.placeOf('equals');
  if (equals === undefined) throw missing(place);
  if (typeof equals === 'object') throw expected(place, 'a text, a number, true or false');
  expectation.end();
  return { path, equals };
}

function statusItem(value: unknown, place: string): number {
  if (!Number.isInteger(value) || (value as number) < 100 || (value as number) > 599) {
    throw expected(place, 'an HTTP status');
  }
  return value as number;
}

function templateOf(reader: ObjectReader, key: string, fields: KnownFields): string {
  return checkTemplate(reader.text(key), reader.placeOf(key), fields);
}

function portOf(reader: ObjectReader, fields: KnownFields): string {
  const raw = reader.raw('port');
  if (typeof raw === 'number') return String(reader.integer('port', { min: 1, max: 65_535 }));
  return templateOf(reader, 'port', fields);
}
