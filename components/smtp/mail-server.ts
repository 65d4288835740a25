import { createTransport, type Transporter } from 'nodemailer';
import { ConfigurationError, shown } from '../configuration-error.ts';

export const securities = ['tls', 'starttls', 'none'] as const;
type Security = (typeof securities)[number];

const connectTimeoutMs = 10_000;
/** Silence of the mail server. */
const silenceMs = 30_000;

/** Where mail is sent: fields of an account, or props with the same names. */
export interface ServerFields {
  host?: unknown;
  port?: unknown;
  security?: unknown;
  username?: unknown;
  password?: unknown;
}

/** Props come before fields of the account. Throws a ConfigurationError that names the prop. */
export function createMailServer(props: ServerFields, account: ServerFields = {}): Transporter {
  const field = (name: keyof ServerFields): unknown => (isEmpty(props[name]) ? account[name] : props[name]);
  const host = field('host');
  if (typeof host !== 'string' || host === '')
    throw new ConfigurationError(
      `host: found ${shown(host)}, expected the name of a mail server, or an account with one`,
    );
  const port = portOf(field('port'));
  const security = securityOf(field('security'), port);
  const user = field('username');
  return createTransport({
    host,
    port: port ?? (security === 'tls' ? 465 : 587),
    secure: security === 'tls',
    // A password is never sent over a connection that did not become encrypted.
    requireTLS: security === 'starttls',
    ignoreTLS: security === 'none',
    ...(isEmpty(user) ? {} : { auth: { user: String(user), pass: String(field('password') ?? '') } }),
    connectionTimeout: connectTimeoutMs,
    greetingTimeout: connectTimeoutMs,
    socketTimeout: silenceMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

function portOf(port: unknown): number | undefined {
  if (isEmpty(port)) return undefined;
  const number = Number(port);
  if (Number.isInteger(number) && number > 0 && number < 65_536) return number;
  throw new ConfigurationError(`port: found ${shown(port)}, expected an integer from 1 to 65535`);
}

function securityOf(security: unknown, port: number | undefined): Security {
  if (isEmpty(security)) return port === 465 ? 'tls' : 'starttls';
  const known = securities.find((one) => one === security);
  if (known !== undefined) return known;
  throw new ConfigurationError(
    `security: found ${shown(security)}, expected one of ${securities.join(', ')}`,
  );
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}
