import { insertJobs, jobRow } from '#jobs/job-store.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { Variables } from '#user-data/variables/variables.ts';
import { openValue, sealValue } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import { checkAnswers, type ImportAnswers } from './import-context.ts';
import type { SealedProject } from './import-project.ts';
import { changeImport, countAskingImports, findSealedImport, type ImportRow } from './import-store.ts';

/** How long the project of an import that asks is kept, sealed as credentials are. */
const askingMs = 24 * 3_600_000;
/** Imports of one owner that ask at the same time: each keeps a whole project. */
const askingMax = 3;

export interface AnswerOptions {
  store: Store;
  vault: Vault;
  clock: Clock;
  variables: Pick<Variables, 'set'>;
  onVariableChange: (ownerId: string) => void;
}

export interface GivenAnswers extends ImportAnswers {
  /** Values by the names of variables; they are set as secrets. */
  variables: Record<string, string>;
  /** Undefined: as when it was started. */
  activate: boolean | undefined;
}

/** Throws CallerError `conflict` when the owner has too many imports that ask. */
export async function requireRoomToAsk(tx: Tx, ownerId: string): Promise<void> {
  const count = await countAskingImports(tx, ownerId);
  if (count >= askingMax)
    throw new CallerError(
      'conflict',
      `${count} imports of this owner wait for answers, expected at most ${askingMax}: answer or undo one of them first`,
    );
}

/** The job that does an import; with `expires`, the one that ends it when no answers came. */
export async function insertImportJob(
  { store }: Pick<AnswerOptions, 'store'>,
  tx: Tx,
  { id, ownerId, nowMs, expires = false }: { id: string; ownerId: string; nowMs: number; expires?: boolean },
): Promise<void> {
  const runAtMs = expires ? nowMs + askingMs : nowMs;
  const job = jobRow({
    ...{ id: newTimeOrderedId(nowMs), kind: 'import_project', ownerId },
    ...{ payload: { import_id: id, ...(expires ? { expires } : {}) }, runAtMs, nowMs },
  });
  await insertJobs(tx, [job]);
  await store.notify(tx, 'millrace_jobs', '');
}

/**
 * Gives an import what it asks for, and lets it begin: variables, answers and the job are stored in one transaction. Answers add to those that
 * it was started with. Throws CallerError `conflict` when it does not ask, and `invalid_parameter` for what cannot be used.
 */
export async function answerImport(
  options: AnswerOptions,
  row: ImportRow,
  { accounts, variables, activate }: GivenAnswers,
  by: { userId: string; keyId: string },
): Promise<void> {
  const { store, vault, clock, onVariableChange } = options;
  const { id, owner_id: ownerId } = row;
  // Accounts of the user who started it are chosen by that user only.
  await checkAnswers(store.read, { accounts }, by.userId === row.user_id ? [ownerId, by.userId] : [ownerId]);
  const names = Object.keys(variables);
  await store.transaction(async (tx) => {
    const found = await findSealedImport(tx, id);
    if (found?.state !== 'asking' || found.sealed === null)
      throw new CallerError(
        'conflict',
        `import ${id} is ${found?.state ?? 'gone'}: it waits for no answers`,
        {
          id,
        },
      );
    const kept = (await openValue(tx, vault, { ownerId, id, sealed: found.sealed })) as SealedProject;
    const value: SealedProject = {
      ...kept,
      answers: { accounts: { ...kept.answers.accounts, ...accounts } },
    };
    const nowMs = clock.now();
    const isAnswered = await changeImport(tx, id, ['asking'], {
      ...{ state: 'waiting', sealed: await sealValue(tx, { vault, clock }, { ownerId, id, value }) },
      ...(activate === undefined ? {} : { activate: activate ? 1 : 0 }),
      updated_at_ms: nowMs,
    });
    if (!isAnswered) throw new CallerError('conflict', `import ${id} was answered meanwhile`, { id });
    if (names.length > 0) {
      const scope = { ownerId, projectId: row.project_id };
      const changes = names.map((name) => ({ name, value: variables[name] ?? '', secret: true }));
      await options.variables.set(tx, scope, changes, by);
      await store.notify(tx, 'millrace_variables', ownerId);
    }
    await insertImportJob(options, tx, { id, ownerId, nowMs });
  });
  if (names.length > 0) onVariableChange(ownerId);
}
