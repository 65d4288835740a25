/**
 * The files that take longest, the longest first: begun last, they would run alone at the end while a core is idle. `npm test` prints
 * the ten slowest; a new one among them belongs here.
 */
const slowest: readonly string[] = [];

/** The files with the slowest first; stories, which wait more, before the others. */
export function slowestFirst(files: readonly string[]): string[] {
  const rank = (file: string): number => {
    const known = slowest.indexOf(file);
    if (known >= 0) return known;
    return slowest.length + (file.startsWith('test/stories/') ? 0 : 1);
  };
  return files.toSorted((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}
