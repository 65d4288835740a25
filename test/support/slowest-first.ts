/**
 * The files that take longest, the longest first: begun last, they would run alone at the end while a core is idle. `npm test` prints
 * the ten slowest; a new one among them belongs here.
 */
export const slowest: readonly string[] = [
  'test/stories/manual-examples-run.test.ts',
  'test/stories/other-manual-examples-run.test.ts',
  'test/stories/the-package-is-installed.test.ts',
  'test/stories/the-package-is-upgraded.test.ts',
  'test/stories/keys-are-rotated.test.ts',
  'test/stories/backup-and-restore.test.ts',
  'test/stories/workspace-in-the-browser.test.ts',
  'test/stories/published-components-use-accounts.test.ts',
  'test/stories/components-come-from-git.test.ts',
  'test/stories/nothing-acknowledged-is-lost.test.ts',
  'test/stories/the-service-stops-and-starts.test.ts',
  'test/stories/what-a-restart-leaves.test.ts',
  'test/adversarial/exhaustion.test.ts',
  'test/adversarial/exhaustion-at-kernel-level.test.ts',
  'test/stories/components-come-from-packages.test.ts',
  'test/stories/the-command-line.test.ts',
  'test/stories/an-import-survives-kills.test.ts',
  'test/stories/api-requests-are-repeated.test.ts',
  'test/stories/published-database-components.test.ts',
  'test/stories/apphooks.test.ts',
  'test/stories/code-is-edited-in-the-browser.test.ts',
  'test/stories/bad-components.test.ts',
  'test/stories/admin-commands.test.ts',
  'test/stories/a-project-moves-in.test.ts',
  'test/stories/accounts-in-the-browser.test.ts',
  'test/stories/workspace-stream.test.ts',
  'test/stories/dashboard-in-the-browser.test.ts',
  'test/stories/map-in-the-browser.test.ts',
  'test/stories/every-event-reaches-its-subscribers.test.ts',
  'test/stories/live-stream.test.ts',
  'src/workflows/flow-control/flow-control-over-nodes.test.ts',
  'test/stories/no-secret-is-kept-in-clear.test.ts',
  'src/runner/hostile-code.test.ts',
  'test/stories/workflows-in-the-browser.test.ts',
];

/** The files with the slowest first; stories, which wait more, before the others. */
export function slowestFirst(files: readonly string[]): string[] {
  const rank = (file: string): number => {
    const known = slowest.indexOf(file);
    if (known >= 0) return known;
    return slowest.length + (file.startsWith('test/stories/') ? 0 : 1);
  };
  return files.toSorted((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}
