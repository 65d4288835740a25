import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIPv4 } from 'node:net';

/** PEM texts, as `https.createServer` takes them. */
export interface ServerCertificate {
  key: string;
  cert: string;
}

const dayMs = 86_400_000;

/** Epoch ms. */
interface Validity {
  notBeforeMs: number;
  notAfterMs: number;
}

/**
 * A certificate authority for one test, which no program trusts unless configured to. Written here byte by byte because Node.js can
 * read certificates but not make them, and a key in the repository would end up on a list of leaked keys.
 */
export class CertificateAuthority {
  /** PEM text, for `extraCa` and the like. */
  readonly pem: string;
  readonly #key: KeyObject;
  readonly #name = 'Test authority';

  constructor() {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    this.#key = privateKey;
    const extensions = [
      extension([2, 5, 29, 19], true, sequence(boolean(true))),
      extension([2, 5, 29, 15], true, bitString(Buffer.from([0x06]), 1)),
    ];
    this.pem = this.#issue(this.#name, publicKey, extensions);
  }

  /** A certificate for host names and IPv4 addresses; valid from yesterday to tomorrow, where nothing else is said. */
  issue(hosts: readonly string[], valid: Partial<Validity> = {}): ServerCertificate {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const names = hosts.map((host) =>
      isIPv4(host) ? tagged(0x87, Buffer.from(host.split('.').map(Number))) : tagged(0x82, Buffer.from(host)),
    );
    const cert = this.#issue(
      hosts[0] ?? 'test',
      publicKey,
      [extension([2, 5, 29, 17], false, sequence(...names))],
      valid,
    );
    return { cert, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
  }

  #issue(
    subject: string,
    publicKey: KeyObject,
    extensions: Buffer[],
    { notBeforeMs = Date.now() - dayMs, notAfterMs = Date.now() + dayMs }: Partial<Validity> = {},
  ): string {
    const content = sequence(
      tagged(0xa0, tagged(0x02, Buffer.from([2]))),
      tagged(0x02, Buffer.concat([Buffer.from([0x01]), randomBytes(15)])),
      ecdsaWithSha256,
      distinguishedName(this.#name),
      sequence(utcTime(notBeforeMs), utcTime(notAfterMs)),
      distinguishedName(subject),
      publicKey.export({ type: 'spki', format: 'der' }),
      tagged(0xa3, sequence(...extensions)),
    );
    const certificate = sequence(content, ecdsaWithSha256, bitString(sign('sha256', content, this.#key), 0));
    const lines = certificate.toString('base64').match(/.{1,64}/g) ?? [];
    return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
  }
}

// DER, as far as a certificate needs it: tag, length, content.

function tagged(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function sequence(...parts: Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

function boolean(value: boolean): Buffer {
  return tagged(0x01, Buffer.from([value ? 0xff : 0]));
}

function bitString(bytes: Buffer, unusedBits: number): Buffer {
  return tagged(0x03, Buffer.concat([Buffer.from([unusedBits]), bytes]));
}

function objectId(numbers: readonly number[]): Buffer {
  const [first = 0, second = 0, ...rest] = numbers;
  const bytes = [first * 40 + second];
  for (const number of rest) {
    const digits = [number & 0x7f];
    for (let left = number >> 7; left > 0; left >>= 7) digits.unshift((left & 0x7f) | 0x80);
    bytes.push(...digits);
  }
  return tagged(0x06, Buffer.from(bytes));
}

function extension(id: readonly number[], critical: boolean, value: Buffer): Buffer {
  return sequence(objectId(id), ...(critical ? [boolean(true)] : []), tagged(0x04, value));
}

function distinguishedName(commonName: string): Buffer {
  const pair = sequence(objectId([2, 5, 4, 3]), tagged(0x0c, Buffer.from(commonName)));
  return sequence(tagged(0x31, pair));
}

function utcTime(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]/g, '').slice(2, 14);
  return tagged(0x17, Buffer.from(`${text}Z`));
}

const ecdsaWithSha256 = sequence(objectId([1, 2, 840, 10045, 4, 3, 2]));
