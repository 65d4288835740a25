/** What MILLRACE_DATABASE_URL names: one database, on one host or on several that take over from each other. */
export interface DatabaseUrl {
  /** A URL for each host, as the driver takes it. At least one. */
  urls: readonly string[];
  /** `read-write`: a host that takes no writes (a standby) is passed over. */
  target: 'any' | 'read-write';
}

/** Where a session lasts as long as its connection: for notifications, migrations, and transactions that read all there is. */
export function sessionUrlOf(settings: { databaseUrl: string; databaseSessionUrl: string }): string {
  return settings.databaseSessionUrl === '' ? settings.databaseUrl : settings.databaseSessionUrl;
}

const protocols = /^postgres(?:ql)?:\/\//;
/** The names of libpq; its targets for readers are of no use to a service that writes. */
const targets: Readonly<Record<string, DatabaseUrl['target']>> = {
  any: 'any',
  'read-write': 'read-write',
  primary: 'read-write',
};
const needsEncoding = 'user or password have characters that need encoding, such as %40 for @ and %2F for /';
const example = 'postgres://user:password@host1:5432,host2:5432/database';

/**
 * Reads the URL of a database as libpq does: hosts are separated by commas, each with a port of its own or 5432, in their
 * place or as the parameters `host` and `port`. Throws what was found and what was expected, without user and password.
 */
export function readDatabaseUrl(text: string): DatabaseUrl {
  const protocol = protocols.exec(text)?.[0];
  if (protocol === undefined) throw new Error('expected a URL that starts with postgres:// or postgresql://');
  const end = text.slice(protocol.length).search(/[/?#]/);
  const authority =
    end === -1 ? text.slice(protocol.length) : text.slice(protocol.length, protocol.length + end);
  const rest = text.slice(protocol.length + authority.length);
  const at = authority.lastIndexOf('@');
  const login = authority.slice(0, at + 1);
  const query = rest.indexOf('?');
  const path = query === -1 ? rest : rest.slice(0, query);
  const parameters = new URLSearchParams(query === -1 ? '' : rest.slice(query + 1));
  if (at === -1 && path.includes('@')) throw new Error(needsEncoding);
  const names = (parameters.get('host') ?? '') !== '' || (parameters.get('port') ?? '') !== '';
  const hosts = names
    ? hostsOfParameters(parameters, authority.slice(at + 1))
    : authority.slice(at + 1).split(',');
  const target = readTarget(parameters.get('target_session_attrs'), hosts.length);
  if (hosts.length === 1) {
    if (!URL.canParse(text)) checkHost(hosts[0] ?? '', login, path);
    return { urls: [text], target };
  }
  for (const name of ['host', 'port', 'target_session_attrs']) parameters.delete(name);
  const kept = parameters.toString();
  for (const host of hosts) checkHost(host, login, path);
  return {
    urls: hosts.map((host) => `${protocol}${login}${host}${path}${kept === '' ? '' : `?${kept}`}`),
    target,
  };
}

function hostsOfParameters(parameters: URLSearchParams, authority: string): string[] {
  const given = parameters.get('host') ?? '';
  const hosts = given === '' ? authority.split(',') : given.split(',');
  const ports = (parameters.get('port') ?? '').split(',');
  if (ports.length > 1 && ports.length !== hosts.length)
    throw new Error(
      `found ${ports.length} ports for ${hosts.length} hosts, expected one port for each or one for all`,
    );
  return hosts.map((host, index) => {
    const port = ports.length === 1 ? ports[0] : ports[index];
    const name = given !== '' && host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
    const encoded = name.startsWith('/') ? encodeURIComponent(name) : name;
    return port === undefined || port === '' ? encoded : `${encoded.replace(/:\d*$/, '')}:${port}`;
  });
}

function readTarget(text: string | null, hosts: number): DatabaseUrl['target'] {
  // The service cannot use a host that takes no writes, so with several hosts it looks for one that does.
  if (text === null) return hosts > 1 ? 'read-write' : 'any';
  const target = Object.hasOwn(targets, text) ? targets[text] : undefined;
  if (target === undefined) {
    throw new Error(
      `found target_session_attrs=${text}, expected ${Object.keys(targets).join(', ')}: the service has to write`,
    );
  }
  return target;
}

function checkHost(host: string, login: string, path: string): void {
  if (host === '') throw new Error(`found an empty host, expected ${example}`);
  const port = /:([^:\]]*)$/.exec(host.startsWith('[') ? host.slice(host.indexOf(']')) : host)?.[1];
  if (port !== undefined && !(/^\d{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65_535))
    throw new Error(`found the port ${JSON.stringify(port)}, expected 1 to 65535`);
  if (URL.canParse(`postgres://${host}/`)) {
    if (URL.canParse(`postgres://${login}${host}${path}`)) return;
    throw new Error(needsEncoding);
  }
  throw new Error(`found the host ${JSON.stringify(host)}, expected ${example}`);
}
