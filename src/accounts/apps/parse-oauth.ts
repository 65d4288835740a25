import type { AppDefinition, OAuth1Settings, OAuth2Settings, Registration } from './app-definition.ts';
import { checkTemplate, checkUrlTemplate, type KnownFields } from './check-template.ts';
import { expected, missing, type ObjectReader, textItem } from './object-reader.ts';

const scopesMax = 200;
const parametersMax = 20;

/** Parameters that only we send: those of an app must not change what the request is. */
const ownAuthorizationParameters = [
  ...['response_type', 'client_id', 'redirect_uri', 'state', 'scope', 'nonce'],
  ...['code_challenge', 'code_challenge_method'],
];
const ownTokenParameters = [
  ...['grant_type', 'client_id', 'client_secret', 'code', 'code_verifier', 'redirect_uri', 'refresh_token'],
  ...['client_assertion', 'client_assertion_type'],
];
const ownOAuth1Parameters = ['oauth_token', 'oauth_callback', 'oauth_verifier'];

/** The credentials that every account of an OAuth app has in addition to its fields. */
export const oauthCredentials = [
  ...['oauth_access_token', 'oauth_refresh_token', 'oauth_client_id', 'oauth_uid', 'oauth_signer_uri'],
];

/** `oauth` of an app; `fields`: what its custom fields are. Throws as ObjectReader does. */
export function parseOAuth(reader: ObjectReader, fields: KnownFields): NonNullable<AppDefinition['oauth']> {
  const version = reader.raw('version') ?? 2;
  if (version !== 1 && version !== 2) throw expected(reader.placeOf('version'), '1 or 2');
  const settings = version === 1 ? parseOAuth1(reader, fields) : parseOAuth2(reader, fields);
  reader.end();
  return settings;
}

function parseOAuth2(reader: ObjectReader, fields: KnownFields): OAuth2Settings {
  const grant = reader.choice('grant', ['authorization_code', 'client_credentials'], 'authorization_code');
  const url = (key: string) => urlOf(reader, key, fields);
  const authorizationUrl = url('authorization_url');
  if (grant === 'authorization_code' && authorizationUrl === undefined) {
    throw missing(reader.placeOf('authorization_url'));
  }
  if (grant === 'client_credentials' && authorizationUrl !== undefined) {
    throw expected(reader.placeOf('authorization_url'), 'nothing: client_credentials has no authorization');
  }
  const tokenUrl = url('token_url');
  if (tokenUrl === undefined) throw missing(reader.placeOf('token_url'));
  const responseFields = reader.texts('response_fields', parametersMax);
  for (const name of Object.keys(responseFields)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(name) || oauthCredentials.includes(name)) {
      throw expected(
        `${reader.placeOf('response_fields')}.${name}`,
        'the name of a credential of the app itself',
      );
    }
  }
  return {
    version: 2,
    grant,
    authorizationUrl,
    tokenUrl,
    refreshUrl: url('refresh_url'),
    revocationUrl: url('revocation_url'),
    scopes: reader.list('scopes', scopesMax, textItem),
    scopeSeparator: reader.optionalText('scope_separator', 3) ?? ' ',
    pkce: reader.flag('pkce', true),
    clientAuth: reader.choice('client_auth', ['basic', 'post', 'none'], 'post'),
    authorizationParameters: parametersOf(reader, 'authorization_parameters', ownAuthorizationParameters),
    tokenParameters: parametersOf(reader, 'token_parameters', ownTokenParameters),
    tokenBody: reader.choice('token_body', ['form', 'json'], 'form'),
    expiresInSeconds: reader.integer('expires_in_seconds', { min: 30, max: 10 * 366 * 86_400 }),
    uid: parseUid(reader, new Map([...fields, ...Object.keys(responseFields).map(good)])),
    responseFields,
    accessTokenPath: reader.optionalText('access_token_path', 200) ?? 'access_token',
    registration: registrationOf(reader),
  };
}

function parseOAuth1(reader: ObjectReader, fields: KnownFields): OAuth1Settings {
  const url = (key: string) => {
    const text = urlOf(reader, key, fields);
    if (text === undefined) throw missing(reader.placeOf(key));
    return text;
  };
  return {
    version: 1,
    requestTokenUrl: url('request_token_url'),
    authorizationUrl: url('authorization_url'),
    accessTokenUrl: url('access_token_url'),
    signatureMethod: reader.choice('signature_method', ['HMAC-SHA1', 'HMAC-SHA256'], 'HMAC-SHA1'),
    authorizationParameters: parametersOf(reader, 'authorization_parameters', ownOAuth1Parameters),
    uid: parseOAuth1Uid(reader, fields),
    registration: registrationOf(reader),
  };
}

function parseUid(reader: ObjectReader, fields: KnownFields): OAuth2Settings['uid'] {
  const uid = reader.object('uid');
  if (uid === undefined) return undefined;
  const from = uid.choice('from', ['token', 'id_token', 'request']);
  return from === 'request' ? requestedUid(uid, fields) : { from, path: lastOf(uid) };
}

function parseOAuth1Uid(reader: ObjectReader, fields: KnownFields): OAuth1Settings['uid'] {
  const uid = reader.object('uid');
  if (uid === undefined) return undefined;
  const from = uid.choice('from', ['token', 'request'], 'token');
  return from === 'request' ? requestedUid(uid, fields) : { from, path: lastOf(uid) };
}

function requestedUid(
  uid: ObjectReader,
  fields: KnownFields,
): { from: 'request'; url: string; path: string } {
  const url = checkUrlTemplate(uid.text('url'), uid.placeOf('url'), fields, { literalDomain: false });
  return { from: 'request', url, path: lastOf(uid) };
}

/** The path, the only other form. */
function lastOf(uid: ObjectReader): string {
  const path = uid.text('path', 200);
  uid.end();
  return path;
}

function urlOf(reader: ObjectReader, key: string, fields: KnownFields): string | undefined {
  const text = reader.optionalText(key);
  if (text === undefined) return undefined;
  return checkUrlTemplate(text, reader.placeOf(key), fields, { literalDomain: true });
}

function parametersOf(reader: ObjectReader, key: string, own: readonly string[]): Record<string, string> {
  const parameters = reader.texts(key, parametersMax);
  for (const [name, value] of Object.entries(parameters)) {
    const place = `${reader.placeOf(key)}.${name}`;
    if (own.includes(name)) throw expected(place, 'nothing: the service sends this parameter itself');
    checkTemplate(value, place, new Map());
  }
  return parameters;
}

function registrationOf(reader: ObjectReader): Registration {
  const registration = reader.object('registration');
  if (registration === undefined) return { url: '', text: defaultRegistration };
  const url = registration.optionalText('url') ?? '';
  if (url !== '' && !/^https:\/\/\S+$/.test(url)) throw expected(registration.placeOf('url'), 'an https URL');
  const text = registration.optionalText('text', 8_000) ?? defaultRegistration;
  checkTemplate(text, registration.placeOf('text'), new Map([good('redirect_uri')]));
  registration.end();
  return { url, text };
}

const defaultRegistration =
  'Register an OAuth application at the provider, with this exact redirect URI: `{{redirect_uri}}`';

function good(name: string): [string, 'good'] {
  return [name, 'good'];
}
