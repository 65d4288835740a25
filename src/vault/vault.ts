import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto';
import { assert } from '#lib/assert.ts';
import { UnavailableError } from '#lib/errors.ts';

/**
 * Seals what must not be readable in the database (sealed-columns.ts lists the columns). Two levels of AES-256-GCM: each
 * owner has data keys of random bytes, which are in the database wrapped by the master key; the newest of an owner seals, all of them open. Owner, object and key are
 * bound to every sealed text as associated data, so that one cannot be put in the place of another. The master key is
 * never in the database.
 *
 * Texts: `v1.<key id>.<base64url of nonce, ciphertext, tag>`, where the key is the data key for sealed values and the
 * master key for wrapped data keys.
 */
export class Vault {
  readonly #masterKey: Buffer;
  /** Tells master keys apart without telling anything about them. */
  readonly masterKeyId: string;

  constructor(masterKey: Buffer) {
    if (masterKey.length !== keyBytes)
      throw new Error(`the master key has ${masterKey.length} bytes instead of 32`);
    this.#masterKey = masterKey;
    this.masterKeyId = createHmac('sha256', masterKey)
      .update('millrace master key id')
      .digest('hex')
      .slice(0, 16);
  }

  /** A key of 32 bytes for another purpose than sealing; the same for all who have the master key. */
  keyFor(purpose: string): Uint8Array {
    return new Uint8Array(hkdfSync('sha256', this.#masterKey, '', `millrace ${purpose}`, keyBytes));
  }

  /** A new data key for an owner, to be kept in its row. */
  newDataKey(ownerId: string): DataKey {
    const keyId = randomBytes(8).toString('hex');
    const bound = bind('data key', ownerId, keyId);
    return {
      ownerId,
      keyId,
      wrapped: encrypt(this.#masterKey, this.masterKeyId, bound, randomBytes(keyBytes)),
    };
  }

  /** Seals a JSON object for `objectId` of the data key's owner. */
  seal(dataKey: DataKey, objectId: string, value: Record<string, unknown>): string {
    const key = this.#unwrap(dataKey);
    const bound = bind('sealed', dataKey.ownerId, objectId);
    const sealed = encrypt(key, dataKey.keyId, bound, Buffer.from(JSON.stringify(value), 'utf8'));
    key.fill(0);
    return sealed;
  }

  /**
   * What was sealed. Throws UnavailableError `wrong_encryption_key` when the master key is not the one it was sealed
   * under, `sealed_value_damaged` when text, owner or object are not those it was sealed with.
   */
  open(dataKey: DataKey, objectId: string, sealed: string): Record<string, unknown> {
    if (keyIdOf(sealed) !== dataKey.keyId) throw damaged(`credentials of ${objectId}`);
    const key = this.#unwrap(dataKey);
    const bytes = decrypt(key, bind('sealed', dataKey.ownerId, objectId), sealed);
    key.fill(0);
    if (bytes === undefined) throw damaged(`credentials of ${objectId}`);
    return JSON.parse(bytes.toString('utf8'));
  }

  /**
   * The same data key wrapped by the master key of `to`, which has been seen to open. Throws as `open` does when this
   * master key does not open it.
   */
  rewrap(dataKey: DataKey, to: Vault): DataKey {
    const key = this.#unwrap(dataKey);
    const bound = bind('data key', dataKey.ownerId, dataKey.keyId);
    const rewrapped = { ...dataKey, wrapped: encrypt(to.#masterKey, to.masterKeyId, bound, key) };
    const again = to.#unwrap(rewrapped);
    const isSame = timingSafeEqual(key, again);
    key.fill(0);
    again.fill(0);
    assert(isSame, 'a data key opens under its new master key as what it was');
    return rewrapped;
  }

  #unwrap({ ownerId, keyId, wrapped }: DataKey): Buffer {
    const wrappedBy = keyIdOf(wrapped);
    if (wrappedBy === undefined) throw damaged(`data key ${keyId}`);
    if (wrappedBy !== this.masterKeyId) {
      throw new UnavailableError(
        'wrong_encryption_key',
        `the credentials were sealed under another encryption key (${wrappedBy}) than the one configured ` +
          `(${this.masterKeyId}); nothing was changed. Start with the key they were sealed under`,
      );
    }
    const key = decrypt(this.#masterKey, bind('data key', ownerId, keyId), wrapped);
    if (key === undefined) throw damaged(`data key ${keyId}`);
    return key;
  }
}

/** As kept in `data_keys`; `wrapped` is worth nothing without the master key. */
export interface DataKey {
  ownerId: string;
  keyId: string;
  wrapped: string;
}

/** Put before the wrapped text of a data key that its master key did not open: nothing of the text itself is lost. */
export const lostMark = 'lost:';

/** The id of the data key that a text was sealed with; undefined when it is no sealed text. */
export function keyIdOf(sealed: string): string | undefined {
  return partsOf(sealed)?.keyId;
}

const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;
const version = 'v1';

/** Associated data. JSON, because joined texts could be split differently. */
function bind(purpose: 'data key' | 'sealed', ownerId: string, id: string): string[] {
  return [purpose, ownerId, id];
}

function encrypt(key: Buffer, keyId: string, bound: string[], plain: Buffer): string {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes });
  cipher.setAAD(associatedData(keyId, bound));
  const bytes = Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
  return `${version}.${keyId}.${bytes.toString('base64url')}`;
}

function decrypt(key: Buffer, bound: string[], text: string): Buffer | undefined {
  const parts = partsOf(text);
  if (parts === undefined || parts.bytes.length < nonceBytes + tagBytes) return undefined;
  const { keyId, bytes } = parts;
  const nonce = bytes.subarray(0, nonceBytes);
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes });
  decipher.setAAD(associatedData(keyId, bound));
  decipher.setAuthTag(bytes.subarray(-tagBytes));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()]);
  } catch {
    // Node says only that it could not authenticate; the caller knows what that means.
    return undefined;
  }
}

function associatedData(keyId: string, bound: string[]): Buffer {
  return Buffer.from(JSON.stringify(['millrace', version, keyId, ...bound]), 'utf8');
}

function partsOf(text: string): { keyId: string; bytes: Buffer } | undefined {
  const parts = /^v1\.([0-9a-f]{16})\.([A-Za-z0-9_-]+)$/.exec(text);
  if (parts?.[1] === undefined || parts[2] === undefined) return undefined;
  return { keyId: parts[1], bytes: Buffer.from(parts[2], 'base64url') };
}

function damaged(what: string): UnavailableError {
  return new UnavailableError(
    'sealed_value_damaged',
    `the stored ${what} cannot be opened: it was changed or mixed up`,
  );
}
