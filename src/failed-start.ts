import { userInfo } from 'node:os';

/** Errors that are made for the operator. */
const named = new Set([
  ...[
    'SettingsError',
    'FolderLockedError',
    'SchemaError',
    'MasterKeyError',
    'UnavailableError',
    'SandboxError',
  ],
]);
/** What the system says of a folder or file that it does not let the service use. */
const wrongFolder = new Set(['EACCES', 'ENOENT', 'EEXIST', 'ENOTDIR', 'EROFS', 'EPERM']);

/** What is printed when the service cannot start: for faults that the operator can fix the message with what to do, for others the stack. */
export function startFailure(
  error: Error & { code?: unknown; port?: unknown; path?: unknown },
  environment: Record<string, string | undefined>,
): string {
  const { name, message, code, port, path } = error;
  if (named.has(name)) return message;
  const isMail = String(port) === environment.MILLRACE_SMTP_PORT;
  if (code === 'EADDRINUSE')
    return `${message}: choose another one with ${isMail ? 'MILLRACE_SMTP_PORT' : 'MILLRACE_PORT'}`;
  if (code === 'EADDRNOTAVAIL')
    return `${message}: this machine has no such address; choose one that it has with MILLRACE_HOST`;
  const isOfFolder = wrongFolder.has(String(code)) && typeof path === 'string';
  if (isOfFolder || /^unable to open database file/.test(message)) return `${message}: ${folderAdvice()}`;
  return error.stack ?? message;
}

function folderAdvice(): string {
  return `MILLRACE_DATA has to be a folder that the user of the service (${userInfo().username}) owns, in one that it may pass through`;
}
