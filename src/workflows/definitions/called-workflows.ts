import type { Db } from '#storage/store.ts';
import type { WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { findWorkflowStates } from './workflow-store.ts';

/** What a step of an answer shows of the workflows that it calls. */
interface CallingStep {
  namespace: string;
  disabled: boolean;
  code_raw: string | null;
  /** The fields of a block as a request gives them; `block` is its kind. */
  block: { block?: unknown; workflow?: unknown } | null;
}

interface CallingWorkflow {
  ownerId: string;
  steps: readonly CallingStep[];
}

/** A call in code whose id is a plain text, as it can be seen without running the code. */
const literalCall = /\$\.flow\.trigger\(\s*(["'`])(p_\w{1,40})\1/g;
const workflowId = /^p_\w{1,40}$/;
/** Calls of a workflow that are looked at. Code could name more ids than a statement of the store takes, and fail every list that has it. */
const callsMax = 100;

/**
 * Sentences about steps that call workflows which cannot run, for each workflow: the id is of none of the owner, or of an inactive one.
 * A workflow may be deployed before those that it calls, so these are warnings, computed from what is there now.
 */
export async function callWarnings(db: Db, workflows: readonly CallingWorkflow[]): Promise<string[][]> {
  const calls = workflows.map(({ steps }) => firstCalls(steps));
  const ids = new Set(calls.flatMap((one) => one.map(({ id }) => id).filter((id) => workflowId.test(id))));
  const found = await findWorkflowStates(db, ids);
  return workflows.map(({ ownerId }, index) =>
    (calls[index] ?? []).flatMap(({ step, id }) => warningOf(step, id, found.get(id), ownerId)),
  );
}

function firstCalls(steps: readonly CallingStep[]): { step: string; id: string }[] {
  const calls: { step: string; id: string }[] = [];
  for (const step of steps) {
    if (calls.length >= callsMax) break;
    calls.push(...callsOf(step, callsMax - calls.length));
  }
  return calls;
}

/** An id that is an expression is known in the run only. */
function callsOf(
  { namespace, disabled, code_raw, block }: CallingStep,
  max: number,
): { step: string; id: string }[] {
  if (disabled) return [];
  const inBlock = block?.block === 'call' && typeof block.workflow === 'string' ? [block.workflow] : [];
  const ids = new Set(inBlock.filter((id) => !id.includes('{{')));
  for (const match of (code_raw ?? '').matchAll(literalCall)) {
    if (ids.size >= max) break;
    ids.add(match[2] ?? '');
  }
  return [...ids].map((id) => ({ step: namespace, id }));
}

function warningOf(
  step: string,
  id: string,
  found: Pick<WorkflowTable, 'owner_id' | 'state'> | undefined,
  ownerId: string,
): string[] {
  const called = `steps.${step} calls the workflow ${JSON.stringify(id)}`;
  // One of another owner is like none.
  if (found === undefined || found.owner_id !== ownerId)
    return [
      `${called}, which does not exist ${ownerId.startsWith('o_') ? 'in this workspace' : 'among your own'}`,
    ];
  return found.state === 'active' ? [] : [`${called}, which is inactive`];
}
