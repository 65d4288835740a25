/** How many characters may be wrong, by the length of what was written: `githb` means github, `box` does not mean aws. */
export const charactersPerSlip = 4;

/** The letters and digits of a name: users write Google Sheets, google-sheets and GoogleSheets. */
export function lettersOf(text: string): string {
  return text
    .slice(0, 64)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '');
}

/** Characters that are wrong, missing, too many, or in the place of their neighbours. */
export function slipsBetween(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const differs = a[row - 1] === b[column - 1] ? 0 : 1;
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      current[column] = Math.min(
        (current[column - 1] ?? 0) + 1,
        (last[column] ?? 0) + 1,
        (last[column - 1] ?? 0) + differs,
        swapped ? (beforeLast[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    beforeLast = last;
    last = current;
  }
  return last[b.length] ?? 0;
}

/** The name that the caller most likely meant by an unknown one; undefined: none is near. */
export function nearestName(names: Iterable<string>, written: string): string | undefined {
  const wanted = lettersOf(written);
  const slipsMax = Math.floor(wanted.length / charactersPerSlip);
  let nearest: { name: string; slips: number } | undefined;
  for (const name of names) {
    const slips = slipsBetween(wanted, lettersOf(name));
    if (slips <= slipsMax && (nearest === undefined || slips < nearest.slips)) nearest = { name, slips };
  }
  return nearest?.name;
}
