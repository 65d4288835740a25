/** Below 0 when `a` is the older version. Numbers count as numbers, a pre-release before its release, no version first. */
export function compareVersions(a: string, b: string): number {
  const [coreA, preA] = partsOf(a);
  const [coreB, preB] = partsOf(b);
  return (
    compareParts(coreA, coreB) ||
    Number(preA === undefined) - Number(preB === undefined) ||
    compareParts(preA ?? [], preB ?? [])
  );
}

function partsOf(version: string): [string[], string[] | undefined] {
  const [whole = ''] = version
    .trim()
    .replace(/^v(?=\d)/, '')
    .split('+');
  const at = whole.indexOf('-');
  const core = at === -1 ? whole : whole.slice(0, at);
  return [core === '' ? [] : core.split('.'), at === -1 ? undefined : whole.slice(at + 1).split('.')];
}

function compareParts(a: readonly string[], b: readonly string[]): number {
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const [left, right] = [a[at], b[at]];
    if (left === undefined || right === undefined) return left === undefined ? -1 : 1;
    const isNumber = [/^\d+$/.test(left), /^\d+$/.test(right)];
    const order =
      isNumber[0] && isNumber[1]
        ? Number(left) - Number(right)
        : Number(isNumber[1]) - Number(isNumber[0]) || (left < right ? -1 : Number(left > right));
    if (order !== 0) return order;
  }
  return 0;
}

/** The one that a key without a version means: the highest version, and of equal ones the package added last. */
export function newestOf<T extends { version: string; package_created_at_ms: number }>(
  found: readonly T[],
): T | undefined {
  return found.toSorted(
    (a, b) => compareVersions(b.version, a.version) || b.package_created_at_ms - a.package_created_at_ms,
  )[0];
}
