import type { BuildProblem, NpmConfig, NpmRequest } from './build-messages.ts';
import { parsePackageSpecifier } from './package-specifier.ts';

/** A package that breaks one of our rules; `problem` is what the caller reads. */
export class InstallRefusal extends Error {
  readonly problem: BuildProblem;

  constructor(code: string, message: string, details: Record<string, unknown>) {
    super(message);
    this.problem = { kind: 'caller', code, message, details };
  }
}

/** `host:port` of the registries and proxies: everywhere the installer may connect to. */
export function allowedHosts(npm: NpmConfig): Set<string> {
  return new Set(
    [...registriesOf(npm), npm.proxy, npm.httpsProxy]
      .filter((url) => url !== undefined && URL.canParse(url))
      .map((text) => {
        const url = new URL(text as string);
        const host = url.hostname.replace(/^\[|\]$/g, '');
        return `${host}:${url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : url.port}`;
      }),
  );
}

/** The configured registry, and those of scopes. */
export function registriesOf(npm: NpmConfig): string[] {
  const scoped = Object.entries(npm.credentials).filter(([key]) => /^@[^:]+:registry$/.test(key));
  return [npm.registry, ...scoped.map(([, url]) => url)];
}

const networkCodes = new Set([
  'ENOTFOUND',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
  'ENOTCACHED',
  'ERR_SOCKET_TIMEOUT',
  'ERR_SOCKET_CONNECTION_TIMEOUT',
  'FETCH_ERROR',
  'EPROTO',
  'E401',
  'E403',
  'E429',
]);

/** npm's errors as build problems; any other error is a fault of the service or of the machine. */
export function describeInstallError(thrown: unknown, request: NpmRequest): BuildProblem {
  if (thrown instanceof InstallRefusal) return thrown.problem;
  const error = (thrown instanceof Error ? thrown : new Error(String(thrown))) as NpmError;
  const name = packageOf(error);
  const specifier = request.specifiers.find((candidate) => parsePackageSpecifier(candidate)?.name === name);
  const details = {
    ...(name === undefined ? {} : { package: name }),
    ...(specifier === undefined ? {} : { specifier }),
  };
  const code = error.code ?? '';
  const known = specifier ?? name;
  const shown = known === undefined ? 'a package' : JSON.stringify(known);
  // What no registry takes as a name, each refuses in a way of its own.
  if (/^E4(00|04|05|06|10|14)$/.test(code))
    return caller('package_not_found', `there is no npm package ${shown}`, details);
  if (code === 'ETARGET' || code === 'ENOVERSIONS') {
    return caller('package_not_found', `no version of the npm package ${shown} matches`, details);
  }
  if (
    /^EALLOW/.test(code) ||
    code === 'EUNSUPPORTEDPROTOCOL' ||
    code === 'EINVALIDTAGNAME' ||
    code === 'EINVALIDPACKAGENAME' ||
    isUnreadableSpecifier(error)
  ) {
    return caller(
      'unsupported_specifier',
      `${shown} depends on something that does not come from the npm registry: expected names of packages with versions, ranges or tags`,
      details,
    );
  }
  if (code === 'EREFUSEDHOST') {
    return caller('package_refused', 'a package refers to a host that is not the npm registry', details);
  }
  if (code === 'EINTEGRITY')
    return caller('package_refused', `${shown} does not have the content it should`, details);
  if (code === 'TAR_ABORT' || code === 'TAR_BAD_ARCHIVE' || code === 'Z_DATA_ERROR')
    return caller('package_refused', `${shown} cannot be unpacked: ${error.message.slice(0, 200)}`, details);
  if (code === 'EBADPLATFORM')
    return caller('package_refused', `${shown} does not support this platform`, details);
  if (code === 'ETOOLARGE') return caller('component_too_large', error.message, details);
  if (/CERT|^UNABLE_TO_/.test(code)) {
    return {
      kind: 'unavailable',
      code: 'registry_unreachable',
      message: `the certificate of the npm registry is not trusted (${code}): expected an authority that MILLRACE_EXTRA_CA or npm's cafile names`,
      details,
    };
  }
  if (networkCodes.has(code) || /^E5\d\d$|^ERR_TLS|^ERR_SSL/.test(code)) {
    return {
      kind: 'unavailable',
      code: 'registry_unreachable',
      message: `the npm registry cannot be used right now (${code})`,
      details,
    };
  }
  return {
    kind: 'unavailable',
    code: 'build_failed',
    message: 'the packages of the component could not be installed',
    details,
  };
}

/** npm has no code for aliases of anything but a package (`npm:../..`), and Node's own for URLs without a host. */
function isUnreadableSpecifier({ code, message }: NpmError): boolean {
  return /^(?:nested aliases|aliases (?:only|must)) /.test(message) || code === 'ERR_INVALID_URL';
}

interface NpmError extends Error {
  code?: string;
  /** Where in npm's errors a package is named differs by their kind. */
  spec?: { name?: string; raw?: string } | string;
  pkgid?: string;
  /** The package whose versions do not match; on any other error the name of its class. */
  name: string;
  uri?: string;
  wanted?: string;
}

function packageOf(error: NpmError): string | undefined {
  if (error.code === 'ETARGET' || error.code === 'ENOVERSIONS') return error.name;
  const spec = typeof error.spec === 'string' ? error.spec : (error.spec?.name ?? error.spec?.raw);
  const text = spec ?? error.pkgid;
  if (text !== undefined) return parsePackageSpecifier(text)?.name ?? text;
  if (error.uri === undefined || !URL.canParse(error.uri)) return undefined;
  return decodeURIComponent(new URL(error.uri).pathname.replace(/^.*\/(?=@|[^/]+$)/, ''));
}

function caller(code: string, message: string, details: Record<string, unknown>): BuildProblem {
  return { kind: 'caller', code, message, details };
}
