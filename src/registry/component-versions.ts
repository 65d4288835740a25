import { coerce, compare, parse, type SemVer } from 'semver';

/** Below 0 when `a` is the older version. What is no version comes first, and `1.2` is the same as `1.2.0`. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [versionOf(a), versionOf(b)];
  if (left === null || right === null) return Number(left !== null) - Number(right !== null);
  return compare(left, right);
}

function versionOf(text: string): SemVer | null {
  return parse(text, { loose: true }) ?? coerce(text, { includePrerelease: true });
}

/** The one that a key without a version means: the highest version, and of equal ones the package added last. */
export function newestOf<T extends { version: string; package_created_at_ms: number }>(
  found: readonly T[],
): T | undefined {
  return found.toSorted(
    (a, b) => compareVersions(b.version, a.version) || b.package_created_at_ms - a.package_created_at_ms,
  )[0];
}
