import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { canonicalHost } from '#lib/canonical-host.ts';
import type { NpmConfig } from './builder/build-messages.ts';
import { defaultRegistry } from './builder/default-registry.ts';

export type { NpmConfig };

/** Where npm keeps its global configuration, apart from its own prefix. */
const globalFiles = ['/usr/local/etc/npmrc', '/usr/etc/npmrc', '/etc/npmrc'];

/** Keys that belong to a registry: sent only to it. */
const credentialPattern = /^(?:\/\/.+:(?:_authToken|_auth|username|_password|email)|@[^:]+:registry)$/;

/**
 * What npm would install with for this user: registry, authorities, proxy and credentials, from the environment
 * (`npm_config_…`), the user's .npmrc and the global one, in this order. Files that are not there are passed over;
 * a `cafile` or `extraCaFile` that cannot be read is an error, since every install would fail without a visible reason.
 * `extraCaFile` (MILLRACE_EXTRA_CA) and NODE_EXTRA_CA_CERTS are trusted in addition to the authorities of npm.
 */
export async function readNpmConfig(
  environment: Readonly<Record<string, string | undefined>>,
  home: string,
  extraCaFile = '',
): Promise<NpmConfig> {
  const fromEnvironment = npmVariables(environment);
  const userFile = fromEnvironment.userconfig ?? join(home, '.npmrc');
  const ownGlobal = fromEnvironment.globalconfig;
  const files = [userFile, ...(ownGlobal === undefined ? globalFiles : [ownGlobal])];
  const settings: Record<string, string> = {};
  const authorities: string[] = [];
  for (const file of files.toReversed()) {
    const text = await readFile(file, 'utf8').catch(() => '');
    for (const [key, value] of parseNpmrc(text, environment)) {
      // A list in npm's form: `ca[]=…`, one line each.
      if (key === 'ca' || key === 'ca[]') authorities.push(value);
      else settings[key] = value;
    }
  }
  Object.assign(settings, fromEnvironment);
  const ca = authorities.map((text) => text.replaceAll('\\n', '\n'));
  const caFile = settings.cafile;
  if (caFile !== undefined && caFile !== '' && caFile !== 'null') ca.push(await readFile(caFile, 'utf8'));
  const extraCa = extraCaFile === '' ? [] : certificatesIn(await readFile(extraCaFile, 'utf8'));
  const ofNode = environment.NODE_EXTRA_CA_CERTS ?? '';
  // Like Node itself, which continues without it.
  if (ofNode !== '') extraCa.push(...certificatesIn(await readFile(ofNode, 'utf8').catch(() => '')));
  return {
    registry: withSlash(settings.registry ?? defaultRegistry),
    credentials: Object.fromEntries(Object.entries(settings).filter(([key]) => credentialPattern.test(key))),
    ca,
    ...(extraCa.length === 0 ? {} : { extraCa: [...new Set(extraCa)] }),
    ...given('proxy', settings.proxy ?? environment.HTTP_PROXY ?? environment.http_proxy),
    ...given('httpsProxy', settings['https-proxy'] ?? environment.HTTPS_PROXY ?? environment.https_proxy),
    ...given('noProxy', settings.noproxy ?? environment.NO_PROXY ?? environment.no_proxy),
  };
}

/** The machine itself, which no proxy is asked for. */
const ownHosts = ['localhost', '127.0.0.1', '::1'];

/** npm with the proxy of the service in the place of its own. It asks that for names, and knows no CIDRs. It compares names in ASCII. */
export function npmThroughProxy(
  npm: NpmConfig,
  { egressProxy, egressProxyExcept }: { egressProxy: string; egressProxyExcept: readonly string[] },
): NpmConfig {
  if (egressProxy === '') return npm;
  const noProxy = [...ownHosts, ...egressProxyExcept.map(nameOrEnding)].join(',');
  return { ...npm, proxy: egressProxy, httpsProxy: egressProxy, noProxy };
}

/** In the spelling of a URL, whose host npm compares with the entries. */
function nameOrEnding(entry: string): string {
  const [, dot = '', name = ''] = /^(\.?)(.*)$/.exec(entry) ?? [];
  return `${dot}${canonicalHost(name) ?? name}`;
}

/** npm as it is configured, or by its defaults, with another registry where one is named. */
export function npmConfigWith(config: NpmConfig | undefined, registry: string): NpmConfig {
  const npm = config ?? { registry: defaultRegistry, credentials: {}, ca: [] };
  return { ...npm, registry: withSlash(registry === '' ? npm.registry : registry) };
}

/** Each certificate of a PEM text by itself; what is none is left out, since one of them would make TLS refuse all. */
function certificatesIn(text: string): string[] {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return blocks.filter((block) => {
    try {
      return new X509Certificate(block) !== undefined;
    } catch {
      return false;
    }
  });
}

function withSlash(registry: string): string {
  return registry.endsWith('/') ? registry : `${registry}/`;
}

function given<K extends string>(key: K, value: string | undefined): { [P in K]?: string } {
  return value === undefined || value === '' || value === 'null'
    ? {}
    : ({ [key]: value } as { [P in K]?: string });
}

/** `npm_config_https_proxy` is the setting https-proxy; registry keys keep their spelling. */
function npmVariables(environment: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const settings: Record<string, string> = {};
  for (const [variable, value] of Object.entries(environment)) {
    const name = /^npm_config_(.+)$/i.exec(variable)?.[1];
    if (name === undefined || value === undefined || value === '') continue;
    settings[/^(?:\/\/|@)/.test(name) ? name : name.toLowerCase().replaceAll('_', '-')] = value;
  }
  return settings;
}

function* parseNpmrc(
  text: string,
  environment: Readonly<Record<string, string | undefined>>,
): Iterable<[string, string]> {
  for (const raw of text.split(/\r?\n/)) {
    const line = raw.trim();
    const at = line.indexOf('=');
    if (at === -1 || line.startsWith(';') || line.startsWith('#')) continue;
    const value = line
      .slice(at + 1)
      .trim()
      .replace(/^(["'])(.*)\1$/, '$2')
      .replaceAll(/\$\{([^}]+)\}/g, (whole, name: string) => environment[name] ?? whole);
    yield [line.slice(0, at).trim(), value];
  }
}
