import { userInfo } from 'node:os';
import { resolve, sep } from 'node:path';
import { settingDefinitions } from '#config/settings.ts';

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
  const folder = resolve(environment.MILLRACE_DATA || settingDefinitions.data.default);
  if (code === 'storage_full') {
    const disk = /of the database/.test(message) ? 'the disk of the database' : `the disk of ${folder}`;
    return `the service has not started, because ${disk} is full: free space there and start it again`;
  }
  if (named.has(name)) return message;
  const isMail = String(port) === environment.MILLRACE_SMTP_PORT;
  if (code === 'EADDRINUSE')
    return `${message}: choose another one with ${isMail ? 'MILLRACE_SMTP_PORT' : 'MILLRACE_PORT'}`;
  if (code === 'EADDRNOTAVAIL')
    return `${message}: this machine has no such address; choose one that it has with MILLRACE_HOST`;
  if (/^unable to open database file/.test(message)) return `${message}: ${folderAdvice()}`;
  if (!wrongFolder.has(String(code))) return error.stack ?? message;
  if (/^listen EACCES/.test(message))
    return `${message}: the user of the service may not listen there; choose a port from 1024 on with ${isMail ? 'MILLRACE_SMTP_PORT' : 'MILLRACE_PORT'}`;
  // Files of other settings, such as MILLRACE_EXTRA_CA, say themselves what is wrong.
  return typeof path === 'string' && isPartOf(path, folder) ? `${message}: ${folderAdvice()}` : message;
}

/** True for the folder, what is in it or beside it under its name, and the folders that it is in. */
function isPartOf(path: string, folder: string): boolean {
  return path.startsWith(folder) || folder.startsWith(path.endsWith(sep) ? path : path + sep);
}

function folderAdvice(): string {
  return `MILLRACE_DATA has to be a folder that the user of the service (${userInfo().username}) owns, in one that it may pass through`;
}
