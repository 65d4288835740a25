import { CallerError } from '#lib/errors.ts';
import { bytesText } from '#lib/units.ts';

/** Longest path of a file, in bytes of UTF-8. */
export const pathBytesMax = 1024;

/** Folder of bodies and attachments that were set aside; never one that user code names. */
export const uploadFolder = 'upload';

/**
 * Normalises a path: segments joined by single slashes, without a slash at either end. Segments `.` are dropped.
 * Path traversal (`..`) is rejected. Throws CallerError `invalid_parameter`.
 */
export function normalisePath(path: unknown): string {
  const normal = segments(path).join('/');
  if (normal === '') throw invalid('expected the path of a file, found nothing');
  return normal;
}

/** The form of a path's beginning, as listings take it: like a path, but it may be empty or end within a segment. */
export function normalisePrefix(prefix: unknown): string {
  if (prefix === undefined || prefix === null) return '';
  const normal = segments(prefix).join('/');
  return normal !== '' && String(prefix).endsWith('/') ? `${normal}/` : normal;
}

function segments(path: unknown): string[] {
  if (typeof path !== 'string') throw invalid(`expected a text, found ${typeof path}`);
  if (path.includes('\0')) throw invalid('a path holds no NUL');
  if (!path.isWellFormed()) throw invalid('a path is well-formed Unicode');
  if (Buffer.byteLength(path) > pathBytesMax) throw invalid(`a path has at most ${bytesText(pathBytesMax)}`);
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) throw invalid('a path must not hold ".."');
  return parts;
}

/** `files` or the id of a stash. Throws CallerError `invalid_parameter`. */
export function checkFolder(folder: unknown): string {
  if (
    typeof folder === 'string' &&
    /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(folder) &&
    folder !== uploadFolder
  )
    return folder;
  throw new CallerError('invalid_parameter', 'folder: expected "files" or the id of a stash', {
    parameter: 'folder',
  });
}

function invalid(text: string): CallerError {
  return new CallerError('invalid_parameter', `path: ${text}`, { parameter: 'path' });
}
