import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * Makes and reads the URIs of the signing service: `{public_url}/oauth1/sign/<account id>.<mac>`. One of them is in
 * `$auth` as `oauth_signer_uri`, and a caller that has it, together with the token of the account, gets signatures made with
 * the consumer secret, which no component ever sees. It is invalid when the account is gone, and when the account
 * has another token.
 *
 * Made when credentials are opened, never stored: the public URL may change. The key is derived from the master key, so
 * that every process knows what another made, and a copy of the store is not enough to make one.
 */
export class SignerUris {
  readonly #key: Uint8Array;
  readonly #publicUrl: () => string;

  constructor(options: { key: Uint8Array; publicUrl: () => string }) {
    this.#key = options.key;
    this.#publicUrl = options.publicUrl;
  }

  uriOf(accountId: string): string {
    return `${this.#publicUrl()}${signerPath}${accountId}.${this.#mac(accountId).toString('base64url')}`;
  }

  /** The account that the last part of such a URI is for; undefined when we did not make it. */
  accountOf(capability: string): string | undefined {
    const [, accountId, mac] = /^(apn_[0-9A-Za-z]{12})\.([0-9A-Za-z_-]{43})$/.exec(capability) ?? [];
    if (accountId === undefined || mac === undefined) return undefined;
    return timingSafeEqual(Buffer.from(mac, 'base64url'), this.#mac(accountId)) ? accountId : undefined;
  }

  /** The credentials as a component reads them: those of an OAuth 1 account name its signer. */
  withSignerUri(
    account: { id: string; grant_type: string },
    credentials: Record<string, unknown>,
  ): Record<string, unknown> {
    if (account.grant_type !== 'oauth1') return credentials;
    return { ...credentials, oauth_signer_uri: this.uriOf(account.id) };
  }

  #mac(accountId: string): Buffer {
    return createHmac('sha256', this.#key)
      .update(JSON.stringify(['oauth1 signer', accountId]))
      .digest();
  }
}

export const signerPath = '/oauth1/sign/';
