import type { RunState } from '#storage/tables/workflow-tables.ts';
/** Why a run that ended counts as failed; null: it succeeded; undefined: it was cancelled, which says neither. */
export function runFailure({
  state,
  error,
}: {
  state: RunState;
  error: string | null;
}): string | null | undefined {
  if (state === 'succeeded') return null;
  if (state !== 'failed' && state !== 'quarantined') return undefined;
  if (error === null) return `a run ended as ${state}`;
  const { code, msg } = JSON.parse(error) as { code?: string; msg?: string };
  return [code, msg].filter((part) => part !== undefined && part !== '').join(': ');
}
