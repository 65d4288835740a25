import type { ClientCredentials } from '#identity/api-tokens.ts';
import { CallerError } from '#lib/errors.ts';

/** The fields of a token request that say who asks. */
export interface TokenRequest {
  client_id?: string;
  client_secret?: string;
}

/** Longer than any id or secret that is ever made; hashing more would be work for nothing. */
const credentialLengthMax = 1024;

/**
 * Who asks for a token (RFC 6749, 2.3.1): HTTP Basic, where id and secret are form-encoded, or fields of the body. Throws
 * CallerError `invalid_client` when there are none or they cannot be read, `invalid_request` for both at once.
 */
export function clientCredentials(authorization: string | undefined, body: TokenRequest): ClientCredentials {
  const basic = basicCredentials(authorization);
  if (basic !== undefined) {
    const isOther = body.client_id !== undefined && body.client_id !== basic.id;
    if (body.client_secret !== undefined || isOther) {
      throw new CallerError(
        'invalid_request',
        'send client_id and client_secret once: with HTTP Basic or in the body',
        {
          parameter: body.client_secret === undefined ? 'client_id' : 'client_secret',
        },
      );
    }
    return bounded(basic);
  }
  const { client_id: id, client_secret: secret } = body;
  if (id === undefined || secret === undefined) {
    throw new CallerError(
      'invalid_client',
      'send client_id and client_secret of an OAuth client, with HTTP Basic or in the body',
    );
  }
  return bounded({ id, secret });
}

function bounded(credentials: ClientCredentials): ClientCredentials {
  const { id, secret } = credentials;
  if (id.length > credentialLengthMax || secret.length > credentialLengthMax || id.includes('\u0000')) {
    throw new CallerError('invalid_client', 'client_id or client_secret cannot be that of an OAuth client');
  }
  return credentials;
}

/** Undefined when it is another scheme or none. */
function basicCredentials(header: string | undefined): ClientCredentials | undefined {
  if (header === undefined || !/^basic( |$)/i.test(header)) return undefined;
  const text = Buffer.from(header.slice('basic'.length).trim(), 'base64').toString('utf8');
  const colon = text.indexOf(':');
  const id = formDecode(text.slice(0, Math.max(colon, 0)));
  const secret = formDecode(text.slice(colon + 1));
  if (colon < 0 || id === undefined || secret === undefined) {
    throw new CallerError('invalid_client', 'the Authorization header is not well-formed HTTP Basic');
  }
  return { id, secret };
}

function formDecode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
