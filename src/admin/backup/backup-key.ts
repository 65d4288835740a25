import { createHmac, hkdfSync, scrypt, timingSafeEqual } from 'node:crypto';
import { Vault } from '#vault/vault.ts';
import { BackupError } from './backup-error.ts';

/** What a backup is sealed with: a passphrase, or a key of 32 bytes that the operator keeps. */
export type BackupSecret = { kind: 'passphrase'; text: string } | { kind: 'key'; key: Buffer };

/** How the key of a file is derived from the secret; it is stored in the file's header. `salt` is base64 of 16 bytes. */
export type KeyDerivation = ({ kind: 'scrypt'; salt: string } & ScryptCost) | { kind: 'key'; salt: string };

export interface ScryptCost {
  n: number;
  r: number;
  p: number;
}

/** 128 MB and about half a second for each guess. */
export const scryptCost: Readonly<ScryptCost> = { n: 2 ** 17, r: 8, p: 1 };
/** What a header may ask of who opens it: 1 GB at most. */
const costMax = { n: 2 ** 20, r: 8, p: 4 } as const;
const keyBytes = 32;

export interface BackupKeys {
  /** Encrypts the body. */
  body: Buffer;
  /** Wraps the data keys. */
  vault: Vault;
  /** Hex; distinguishes a wrong secret from a damaged file. */
  check: string;
}

/** Throws `BackupError` for a derivation that no version of ours has written. */
export async function deriveKeys(secret: BackupSecret, derivation: KeyDerivation): Promise<BackupKeys> {
  const salt = Buffer.from(derivation.salt, 'base64');
  const root = await rootKey(secret, derivation, salt);
  const keyFor = (purpose: string) =>
    Buffer.from(hkdfSync('sha256', root, salt, `millrace backup ${purpose}`, keyBytes));
  return {
    body: keyFor('body'),
    vault: new Vault(keyFor('data keys')),
    check: createHmac('sha256', keyFor('check')).update('millrace').digest('hex').slice(0, 32),
  };
}

export function isSameCheck(one: string, other: string): boolean {
  return one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other));
}

function rootKey(secret: BackupSecret, derivation: KeyDerivation, salt: Buffer): Promise<Buffer> | Buffer {
  if (derivation.kind === 'key') {
    if (secret.kind !== 'key') {
      throw new BackupError('this backup was made with a recovery key: give it with --key-file');
    }
    return secret.key;
  }
  if (secret.kind !== 'passphrase') {
    throw new BackupError('this backup was made with a passphrase, not with a recovery key');
  }
  const { n, r, p } = derivation;
  const isPossible =
    n > 1 && n <= costMax.n && (n & (n - 1)) === 0 && r > 0 && r <= costMax.r && p > 0 && p <= costMax.p;
  if (!isPossible)
    throw new BackupError('the header of this file is damaged: its scrypt cost is none of ours');
  // Typed differently by another keyboard, it is the same passphrase.
  const text = secret.text.normalize('NFKC');
  const maxmem = 256 * n * r;
  return new Promise((resolve, reject) => {
    scrypt(text, salt, keyBytes, { N: n, r, p, maxmem }, (error, key) =>
      error === null ? resolve(key) : reject(error),
    );
  });
}
