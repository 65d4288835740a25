import type { AppDefinition } from './app-definition.ts';

/** How many characters may be wrong, by the length of what was written: `githb` means github, `box` does not mean aws. */
const charactersPerSlip = 4;

/** The app that the caller most likely meant by an unknown slug: one with the same letters, or with one or two typing errors. */
export function nearestApp(
  apps: readonly Pick<AppDefinition, 'slug' | 'name'>[],
  written: string,
): string | undefined {
  const wanted = plain(written);
  const slipsMax = Math.floor(wanted.length / charactersPerSlip);
  let nearest: { slug: string; slips: number } | undefined;
  for (const { slug, name } of apps) {
    const slips = Math.min(slipsBetween(wanted, plain(slug)), slipsBetween(wanted, plain(name)));
    if (slips <= slipsMax && (nearest === undefined || slips < nearest.slips)) nearest = { slug, slips };
  }
  return nearest?.slug;
}

/** The letters and digits of a name: users write Google Sheets, google-sheets and GoogleSheets. */
function plain(text: string): string {
  return text
    .slice(0, 64)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '');
}

/** Characters that are wrong, missing, too many, or in the place of their neighbours. */
function slipsBetween(a: string, b: string): number {
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
