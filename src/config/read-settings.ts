import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { unreachable } from '#lib/assert.ts';
import { ConnectTo } from './connect-to.ts';
import { readDatabaseUrl } from './database-url.ts';
import { type SettingDefinition, type Settings, settingDefinitions } from './settings.ts';

/** Lists all problems of the settings, each with its variable. */
export class SettingsError extends Error {
  override name = 'SettingsError';
}

/** Reads and checks all settings. Throws `SettingsError` with every wrong value and what was expected. */
export function readSettings(environment: Record<string, string | undefined>): Settings {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, definition] of Object.entries(settingDefinitions) as [string, SettingDefinition][]) {
    const text = environment[definition.env];
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
  // Variables of the command line, which may be set in the shell that starts the service.
  const others = ['MILLRACE_URL', 'MILLRACE_PROFILE'];
  const known = new Set<string>(Object.values(settingDefinitions).map((definition) => definition.env));
  for (const key of Object.keys(environment)) {
    if (
      key.startsWith('MILLRACE_') &&
      !key.startsWith('MILLRACE_TEST_') &&
      !known.has(key) &&
      !others.includes(key)
    ) {
      problems.push(`${key}: no such setting; the settings are ${[...known].join(', ')}`);
    }
  }
  if (problems.length > 0)
    throw new SettingsError(`cannot start with these settings:\n  ${problems.join('\n  ')}`);
  return values as Settings;
}

function checkTogether(values: Record<string, unknown>, problems: string[]): void {
  const roles = ['api', 'ingress', 'scheduler', 'worker'];
  for (const role of (values.roles as string[] | undefined) ?? []) {
    if (!roles.includes(role))
      problems.push(`MILLRACE_ROLES: expected any of ${roles.join(', ')}, found ${JSON.stringify(role)}`);
  }
  for (const proxy of (values.trustedProxies as string[] | undefined) ?? []) {
    if (!isAddressOrRange(proxy))
      problems.push(
        `MILLRACE_TRUSTED_PROXIES: expected addresses or CIDRs such as 10.0.0.0/8, found ${JSON.stringify(proxy)}`,
      );
    else if (/\/0+$/.test(proxy))
      problems.push(
        `MILLRACE_TRUSTED_PROXIES: ${JSON.stringify(proxy)} would let every caller choose its own address; write the address or network of your proxy, such as 127.0.0.1 or 10.0.0.0/8`,
      );
  }
  for (const entry of (values.connectTo as string[] | undefined) ?? []) {
    try {
      new ConnectTo([entry]);
    } catch (error) {
      problems.push(`MILLRACE_CONNECT_TO: ${(error as Error).message}`);
    }
  }
  // Settings that are needed together.
  for (const [name, env, other, otherEnv] of [
    ['smtpUrl', 'MILLRACE_SMTP_URL', 'emailFrom', 'MILLRACE_EMAIL_FROM'],
    ['s3AccessKey', 'MILLRACE_S3_ACCESS_KEY', 's3SecretKey', 'MILLRACE_S3_SECRET_KEY'],
    ['smtpTlsKey', 'MILLRACE_SMTP_TLS_KEY', 'smtpTlsCert', 'MILLRACE_SMTP_TLS_CERT'],
  ] as const) {
    if (values[name] === undefined || values[other] === undefined) continue;
    if (values[name] !== '' && values[other] === '') problems.push(`${otherEnv}: needed with ${env}`);
    if (values[name] === '' && values[other] !== '') problems.push(`${env}: needed with ${otherEnv}`);
  }
  if (typeof values.databaseUrl === 'string' && values.databaseUrl !== '') {
    try {
      readDatabaseUrl(values.databaseUrl);
    } catch (error) {
      problems.push(`MILLRACE_DATABASE_URL: ${(error as Error).message}`);
    }
  }
  // Only these characters pass through a header unchanged. The key is never shown.
  if (typeof values.apiKey === 'string' && values.apiKey !== '' && !/^[!-~]{20,1024}$/.test(values.apiKey)) {
    problems.push(
      `MILLRACE_API_KEY: expected 20 to 1,024 printable ASCII characters without spaces, found ${values.apiKey.length} characters`,
    );
  }
  for (const [name, env, protocols] of [
    ['publicUrl', 'MILLRACE_PUBLIC_URL', ['http:', 'https:']],
    ['npmRegistry', 'MILLRACE_NPM_REGISTRY', ['http:', 'https:']],
    ['smtpUrl', 'MILLRACE_SMTP_URL', ['smtp:', 'smtps:']],
    ['s3Endpoint', 'MILLRACE_S3_ENDPOINT', ['http:', 'https:']],
  ] as const) {
    const text = values[name];
    if (typeof text !== 'string' || text === '') continue;
    if (!URL.canParse(text) || !(protocols as readonly string[]).includes(new URL(text).protocol)) {
      problems.push(`${env}: expected a URL that starts with ${protocols.map((p) => `${p}//`).join(' or ')}`);
    }
  }
}

function isAddressOrRange(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/');
  const version = isIP(address);
  if (version === 0 || more.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
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
