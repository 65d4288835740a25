import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { unreachable } from '#lib/assert.ts';
import { canonicalHost } from '#lib/canonical-host.ts';
import { parseIpRange, problemOfRange } from '#lib/ip-address.ts';
import { nearestName } from '#lib/nearest-name.ts';
import { parseRatio } from '#telemetry/sampler.ts';
import { parseExportHeaders } from '#telemetry/span-exporter.ts';
import { problemOfEgress } from './allowed-address.ts';
import { isBucketName } from './bucket-name.ts';
import { ConnectTo } from './connect-to.ts';
import { readDatabaseUrl } from './database-url.ts';
import { readGroupGrant } from './group-grants.ts';
import { readProxyUrl } from './proxy-url.ts';
import { fileVariables, withSettingFiles } from './setting-files.ts';
import { type SettingDefinition, type Settings, settingDefinitions } from './settings.ts';

/** Lists all problems of the settings, each with its variable, or says what is wrong with the file of one. */
export class SettingsError extends Error {
  override name = 'SettingsError';
}

/** Reads and checks all settings. Throws `SettingsError` with every wrong value and what was expected. */
export function readSettings(environment: Record<string, string | undefined>): Settings {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  const given = withSettingFiles(environment, problems);
  for (const [name, definition] of Object.entries(settingDefinitions) as [string, SettingDefinition][]) {
    const text = given[definition.env];
    try {
      values[name] = parseSetting(
        definition,
        text === undefined || text === '' ? String(definition.default) : text,
      );
    } catch (error) {
      problems.push(`${definition.env}: ${(error as Error).message}`);
    }
  }
  if (typeof values.data === 'string') values.data = resolve(values.data);
  checkTogether(values, problems);
  checkApiKey(values.apiKey, environment, problems);
  // Variables of the command line, which may be set in the shell that starts the service.
  const others = ['MILLRACE_URL', 'MILLRACE_PROFILE'];
  const names: string[] = Object.values(settingDefinitions).map((definition) => definition.env);
  const known = new Set([...names, ...fileVariables()]);
  for (const key of Object.keys(environment)) {
    if (
      key.startsWith('MILLRACE_') &&
      !key.startsWith('MILLRACE_TEST_') &&
      !known.has(key) &&
      !others.includes(key)
    ) {
      problems.push(`${key}: ${unknownSetting(key, names)}`);
    }
  }
  if (problems.length > 0)
    throw new SettingsError(`cannot start with these settings:\n  ${problems.join('\n  ')}`);
  return values as Settings;
}

function unknownSetting(key: string, names: readonly string[]): string {
  const name = key.replace(/_FILE$/, '');
  if (name !== key && names.includes(name))
    return `no such setting: ${name} is not read from a file; expected ${name} itself`;
  const prefix = 'MILLRACE_';
  const rests = names.filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length));
  const nearest = nearestName(rests, name.slice(prefix.length));
  const expected = nearest === undefined ? 'one of docs/reference/settings.md' : prefix + nearest;
  return `no such setting; expected ${expected}`;
}

/** Says where a key comes from and what is wrong with it, without showing it. */
function checkApiKey(
  apiKey: unknown,
  environment: Record<string, string | undefined>,
  problems: string[],
): void {
  // Only these characters pass through a header unchanged.
  if (typeof apiKey !== 'string' || apiKey === '' || /^[!-~]{20,1024}$/.test(apiKey)) return;
  const file = environment.MILLRACE_API_KEY_FILE ?? '';
  const place = file === '' ? 'MILLRACE_API_KEY' : `MILLRACE_API_KEY_FILE (${JSON.stringify(file)})`;
  const at = apiKey.search(/[^!-~]/);
  const wrong = apiKey.codePointAt(at) ?? 0;
  const found =
    at === -1
      ? `${apiKey.length} characters`
      : `${nameOfCharacter(wrong)} as character ${at + 1} of ${apiKey.length}`;
  problems.push(`${place}: expected 20 to 1,024 printable ASCII characters without spaces, found ${found}`);
}

function nameOfCharacter(code: number): string {
  const names: Readonly<Record<number, string>> = {
    9: 'a tab',
    32: 'a space',
    65279: 'a byte order mark (U+FEFF), which some editors write',
  };
  return names[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
}

function checkTogether(values: Record<string, unknown>, problems: string[]): void {
  const roles = ['api', 'ingress', 'scheduler', 'worker'];
  for (const role of (values.roles as string[] | undefined) ?? []) {
    if (!roles.includes(role))
      problems.push(`MILLRACE_ROLES: expected any of ${roles.join(', ')}, found ${JSON.stringify(role)}`);
  }
  for (const entry of (values.egress as string[] | undefined) ?? []) {
    const problem = problemOfEgress(entry);
    if (problem !== undefined) problems.push(`MILLRACE_EGRESS: ${problem}`);
  }
  for (const proxy of (values.trustedProxies as string[] | undefined) ?? []) {
    if (parseIpRange(proxy) === undefined)
      problems.push(
        `MILLRACE_TRUSTED_PROXIES: expected addresses or CIDRs such as 10.0.0.0/8, found ${JSON.stringify(proxy)}`,
      );
    // The largest networks that are anyone's own are 10.0.0.0/8 and fc00::/7.
    else if (/\/0*[0-6]$/.test(proxy))
      problems.push(
        `MILLRACE_TRUSTED_PROXIES: ${JSON.stringify(proxy)} would let every caller choose its own address; write the address or network of your proxy, such as 127.0.0.1 or 10.0.0.0/8`,
      );
    else checkNetwork('MILLRACE_TRUSTED_PROXIES', proxy, problems);
  }
  for (const entry of (values.connectTo as string[] | undefined) ?? []) {
    try {
      new ConnectTo([entry]);
    } catch (error) {
      problems.push(`MILLRACE_CONNECT_TO: ${(error as Error).message}`);
    }
  }
  checkSingleSignOn(values, problems);
  // Settings that are needed together.
  for (const [name, env, other, otherEnv] of [
    ['smtpUrl', 'MILLRACE_SMTP_URL', 'emailFrom', 'MILLRACE_EMAIL_FROM'],
    ['s3AccessKey', 'MILLRACE_S3_ACCESS_KEY', 's3SecretKey', 'MILLRACE_S3_SECRET_KEY'],
    ['smtpTlsKey', 'MILLRACE_SMTP_TLS_KEY', 'smtpTlsCert', 'MILLRACE_SMTP_TLS_CERT'],
    ['oidcIssuer', 'MILLRACE_OIDC_ISSUER', 'oidcClientId', 'MILLRACE_OIDC_CLIENT_ID'],
  ] as const) {
    if (values[name] === undefined || values[other] === undefined) continue;
    if (values[name] !== '' && values[other] === '') problems.push(`${otherEnv}: needed with ${env}`);
    if (values[name] === '' && values[other] !== '') problems.push(`${env}: needed with ${otherEnv}`);
  }
  for (const name of ['databaseUrl', 'databaseSessionUrl'] as const) {
    const url = values[name];
    if (typeof url !== 'string' || url === '') continue;
    try {
      readDatabaseUrl(url);
    } catch (error) {
      problems.push(`${settingDefinitions[name].env}: ${(error as Error).message}`);
    }
  }
  if (
    values.databaseUrl === '' &&
    values.databaseSessionUrl !== '' &&
    values.databaseSessionUrl !== undefined
  )
    problems.push('MILLRACE_DATABASE_URL: needed with MILLRACE_DATABASE_SESSION_URL');
  checkProxy(values, problems);
  checkObjectStorage(values, problems);
  checkFiles(values, problems);
  checkTracing(values, problems);
  for (const [name, env, protocols] of [
    ['publicUrl', 'MILLRACE_PUBLIC_URL', ['http:', 'https:']],
    ['npmRegistry', 'MILLRACE_NPM_REGISTRY', ['http:', 'https:']],
    ['smtpUrl', 'MILLRACE_SMTP_URL', ['smtp:', 'smtps:']],
    ['s3Endpoint', 'MILLRACE_S3_ENDPOINT', ['http:', 'https:']],
    ['traceEndpoint', 'OTEL_EXPORTER_OTLP_ENDPOINT', ['http:', 'https:']],
  ] as const) {
    const text = values[name];
    if (typeof text !== 'string' || text === '') continue;
    if (!URL.canParse(text) || !(protocols as readonly string[]).includes(new URL(text).protocol)) {
      problems.push(`${env}: expected a URL that starts with ${protocols.map((p) => `${p}//`).join(' or ')}`);
    } else if (/\s/.test(text)) problems.push(`${env}: expected a URL without spaces and line ends`);
  }
  checkMailServer(values, problems);
}

/** What is wrong here would only be seen when the first mail is sent. The text may have a password in it. */
function checkMailServer({ smtpUrl }: Record<string, unknown>, problems: string[]): void {
  const url = typeof smtpUrl === 'string' ? URL.parse(smtpUrl) : null;
  if (url === null || !/^smtps?:$/.test(url.protocol)) return;
  if (url.hostname === '')
    problems.push('MILLRACE_SMTP_URL: expected a host, as in smtp://mail.example.com:587');
  try {
    decodeURIComponent(url.username + url.password);
  } catch {
    problems.push('MILLRACE_SMTP_URL: in user and password a percent sign is written %25');
  }
}

function checkProxy(values: Record<string, unknown>, problems: string[]): void {
  const { egressProxy: proxy, egressProxyExcept: except } = values;
  const entries = (except as string[] | undefined) ?? [];
  if (typeof proxy === 'string' && proxy !== '') {
    try {
      readProxyUrl(proxy);
    } catch (error) {
      // The text may have a password in it.
      problems.push(`MILLRACE_EGRESS_PROXY: ${(error as Error).message}`);
    }
  } else if (entries.length > 0)
    problems.push('MILLRACE_EGRESS_PROXY: needed with MILLRACE_EGRESS_PROXY_EXCEPT');
  for (const entry of entries) {
    if (/\/0+$/.test(entry))
      problems.push(
        `MILLRACE_EGRESS_PROXY_EXCEPT: ${JSON.stringify(entry)} would dial everything directly; leave MILLRACE_EGRESS_PROXY out for that`,
      );
    else if (parseIpRange(entry) === undefined && !isHostOrEnding(entry))
      problems.push(
        `MILLRACE_EGRESS_PROXY_EXCEPT: expected names, endings such as .example.com, addresses or CIDRs, found ${JSON.stringify(entry)}`,
      );
    else checkNetwork('MILLRACE_EGRESS_PROXY_EXCEPT', entry, problems);
  }
}

function checkNetwork(env: string, entry: string, problems: string[]): void {
  const problem = problemOfRange(entry);
  if (problem !== undefined) problems.push(`${env}: ${problem}`);
}

function isHostOrEnding(text: string): boolean {
  const host = canonicalHost(text.replace(/^\./, ''));
  return host !== undefined && isIP(host) === 0 && /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/.test(host);
}

/** What is wrong here would stand in a host name or a header of each request. No key is shown. */
function checkObjectStorage(values: Record<string, unknown>, problems: string[]): void {
  const { s3Region: region, s3Endpoint: endpoint } = values;
  if (typeof region === 'string' && !/^[\w.-]{1,64}$/.test(region))
    problems.push(
      `MILLRACE_S3_REGION: expected letters, digits, ".", "-" and "_", such as us-east-1, found ${JSON.stringify(region)}`,
    );
  for (const name of ['s3AccessKey', 's3SecretKey'] as const) {
    const key = values[name];
    if (typeof key === 'string' && !/^[\x21-\x7e]*$/.test(key))
      problems.push(
        `${settingDefinitions[name].env}: expected ASCII characters without spaces and line ends`,
      );
  }
  const url = typeof endpoint === 'string' ? URL.parse(endpoint) : null;
  // The path of a request is written behind the text, so that a bare question mark counts too.
  if (url !== null && (url.username + url.password !== '' || /[?#]/.test(String(endpoint))))
    problems.push(
      'MILLRACE_S3_ENDPOINT: expected a URL without user, password, query and fragment; keys are in MILLRACE_S3_ACCESS_KEY and MILLRACE_S3_SECRET_KEY',
    );
}

function checkFiles(values: Record<string, unknown>, problems: string[]): void {
  const { files, filesBucket: bucket, filesPrefix: prefix } = values;
  if (typeof bucket === 'string' && bucket !== '' && !isBucketName(bucket))
    problems.push(
      `MILLRACE_FILES_BUCKET: expected the name of a bucket (3 to 63 lower-case letters, digits, dots and hyphens), found ${JSON.stringify(bucket)}`,
    );
  if (typeof prefix === 'string' && !/^(?:[\w-][\w.-]{0,99}\/){1,9}$/.test(prefix))
    problems.push(
      `MILLRACE_FILES_PREFIX: expected names of letters, digits, ".", "-" and "_", each followed by a slash, found ${JSON.stringify(prefix)}`,
    );
  if (files === 's3' && bucket === '') problems.push('MILLRACE_FILES_BUCKET: needed with MILLRACE_FILES=s3');
  if (bucket !== '' && typeof bucket === 'string' && values.s3AccessKey === '')
    problems.push('MILLRACE_S3_ACCESS_KEY: needed with MILLRACE_FILES_BUCKET');
}

function checkTracing(values: Record<string, unknown>, problems: string[]): void {
  const { traceSamplerArg: ratio, traceHeaders: headers } = values;
  if (typeof ratio === 'string' && parseRatio(ratio) === undefined)
    problems.push(`OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1, found ${JSON.stringify(ratio)}`);
  try {
    parseExportHeaders(String(headers));
  } catch (error) {
    problems.push(`OTEL_EXPORTER_OTLP_HEADERS: ${(error as Error).message}`);
  }
}

function checkSingleSignOn(values: Record<string, unknown>, problems: string[]): void {
  const { oidcIssuer: issuer, oidcScopes: scopes } = values;
  if (typeof issuer === 'string' && issuer !== '' && !isIssuer(issuer)) {
    problems.push(
      'MILLRACE_OIDC_ISSUER: expected a URL that starts with https:// and has no query, fragment or password; http:// only on 127.0.0.1, [::1] or localhost',
    );
  }
  if (typeof scopes === 'string' && !scopes.split(/\s+/).includes('openid')) {
    problems.push(
      `MILLRACE_OIDC_SCOPES: expected scopes separated by spaces, with openid among them, found ${JSON.stringify(scopes)}`,
    );
  }
  for (const entry of (values.oidcGroups as string[] | undefined) ?? []) {
    try {
      readGroupGrant(entry);
    } catch (error) {
      problems.push(`MILLRACE_OIDC_GROUPS: ${(error as Error).message}`);
    }
  }
  if (issuer !== '') return;
  for (const [name, env] of [
    ['oidcClientSecret', 'MILLRACE_OIDC_CLIENT_SECRET'],
    ['oidcGroups', 'MILLRACE_OIDC_GROUPS'],
    ['oidcCreateUsers', 'MILLRACE_OIDC_CREATE_USERS'],
    ['oidcOnly', 'MILLRACE_OIDC_ONLY'],
  ] as const) {
    const value = values[name] as string | readonly string[] | undefined;
    if (value !== undefined && value !== 'off' && value.length > 0)
      problems.push(`${env}: needs MILLRACE_OIDC_ISSUER and MILLRACE_OIDC_CLIENT_ID`);
  }
}

/** An issuer whose answers cannot be changed on their way: with TLS, or on this machine. */
function isIssuer(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, password, search, hash } = new URL(text);
  if (username !== '' || password !== '' || search !== '' || hash !== '') return false;
  return (
    protocol === 'https:' || (protocol === 'http:' && ['127.0.0.1', '[::1]', 'localhost'].includes(hostname))
  );
}

function parseSetting(definition: SettingDefinition, text: string): unknown {
  switch (definition.type) {
    case 'integer': {
      const value = Number(text);
      if (!Number.isInteger(value) || value < definition.min || value > definition.max) {
        throw new Error(
          `expected an integer from ${definition.min} to ${definition.max}, found ${JSON.stringify(text)}`,
        );
      }
      return value;
    }
    case 'list':
      return text
        .split(',')
        .map((part) => part.trim())
        .filter((part) => part !== '');
    case 'choice':
      if (!definition.choices.includes(text)) {
        throw new Error(`expected one of ${definition.choices.join(', ')}, found ${JSON.stringify(text)}`);
      }
      return text;
    case 'string':
      return text;
    default:
      return unreachable(definition);
  }
}
