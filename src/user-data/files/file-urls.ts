import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Clock } from '#lib/clock.ts';

/** How long a signed URL is good for. */
export const urlLifetimeMs = 30 * 60 * 1000;

/**
 * Makes and checks URLs whose holder may read one file for half an hour:
 * `{public_url}/files/<file id>?expires=<epoch s>&signature=<hex>`.
 *
 * The key is derived from the master key: every process has that one already, so each checks what another signed; it
 * is not in the database, so a copy of the store is not enough to sign; and there is no further key to keep or to lose.
 */
export class FileUrls {
  readonly #key: Uint8Array;
  readonly #publicUrl: () => string;
  readonly #clock: Clock;

  constructor(options: { key: Uint8Array; publicUrl: () => string; clock: Clock }) {
    this.#key = options.key;
    this.#publicUrl = options.publicUrl;
    this.#clock = options.clock;
  }

  urlOf(fileId: string): string {
    const expires = Math.floor((this.#clock.now() + urlLifetimeMs) / 1000);
    const signature = this.#sign(fileId, expires).toString('hex');
    return `${this.#publicUrl()}/files/${fileId}?expires=${expires}&signature=${signature}`;
  }

  /** True when the signature is valid and has not expired. */
  accepts(fileId: string, expires: unknown, signature: unknown): boolean {
    if (typeof expires !== 'string' || !/^\d{1,12}$/.test(expires)) return false;
    if (typeof signature !== 'string' || !/^[0-9a-f]{64}$/.test(signature)) return false;
    const seconds = Number(expires);
    if (!timingSafeEqual(Buffer.from(signature, 'hex'), this.#sign(fileId, seconds))) return false;
    return seconds * 1000 > this.#clock.now();
  }

  #sign(fileId: string, expires: number): Buffer {
    return createHmac('sha256', this.#key)
      .update(JSON.stringify(['file url', fileId, expires]))
      .digest();
  }
}
