/** An import of an npm package, taken apart: `@scope/name@range/sub/path`. */
export interface PackageSpecifier {
  name: string;
  /** As written after the `@`; absent when the import names no version. */
  range?: string;
  /** Starts with a slash, or is empty. */
  subpath: string;
  /** `name` or `name@range`: what has to be installed. */
  request: string;
}

/** What npm takes as the name of a package: nothing in it means anything in a URL. */
const namePattern = /^(@[\w\-.~!'()*]+\/)?[\w\-.~!'()*]+$/;
const packagePattern = /^((?:@[^/@\s]+\/)?[^/@\s][^/@\s]*)(?:@([^/]+))?(\/.*)?$/s;

/** Null for what is not an npm package with a version, range or tag: URLs, paths, `npm:`, `file:`, `#imports`. */
export function parsePackageSpecifier(specifier: string): PackageSpecifier | null {
  const parts = packagePattern.exec(specifier);
  const name = parts?.[1];
  if (parts === null || name === undefined || specifier.length > 500) return null;
  const range = parts[2];
  if (!namePattern.test(name) || /^[._~]/.test(name)) return null;
  // A colon in what follows means a protocol; half a character is none, and no URL can have it.
  if (range !== undefined && (/[:\\\0]/.test(range) || !range.isWellFormed())) return null;
  const subpath = parts[3] ?? '';
  if (subpath.split('/').some((part) => part === '..')) return null;
  return {
    name,
    ...(range === undefined ? {} : { range }),
    subpath,
    request: range === undefined ? name : `${name}@${range}`,
  };
}
