import { callerOf } from '#http/route-support.ts';
import { readable, writable } from '#identity/permissions.ts';
import { must } from '#lib/assert.ts';
import type { Store } from '#storage/store.ts';
import type { WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { viewWorkflows, type WorkflowViewContext } from '#workflows/definitions/view-workflow.ts';
import type { DefinitionInput } from '#workflows/definitions/workflow-input.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';

/** The code of a step is in an answer three times: `code_raw`, `codeRaw` and that of its saved component. */
export const codeCopies = 3;

/** The workflow of a path, for a caller who may read it. */
export async function readableWorkflow(
  store: Store,
  request: Parameters<typeof callerOf>[0],
  id: string,
): Promise<WorkflowTable> {
  const found = await findWorkflow(store.read, id);
  return readable(store.read, callerOf(request), found, { what: 'workflow', id });
}

/** The workflow of a path, for a caller who may change it. */
export async function writableWorkflow(
  store: Store,
  request: Parameters<typeof callerOf>[0],
  id: string,
): Promise<WorkflowTable> {
  const found = await findWorkflow(store.read, id);
  return writable(store.read, callerOf(request), found, { what: 'workflow', id });
}

export async function viewOfWorkflow(
  store: Store,
  workflow: WorkflowTable,
  context: WorkflowViewContext,
): Promise<Awaited<ReturnType<typeof viewWorkflows>>[number]> {
  return must((await viewWorkflows(store.read, [workflow], context))[0], 'view of a workflow');
}

/** Only what was given: an absent field is not a change. The schema has checked the types. */
export function definitionOf(body: {
  steps?: unknown;
  triggers?: unknown;
  settings?: unknown;
}): DefinitionInput {
  const { steps, triggers, settings } = body;
  return {
    ...(steps === undefined ? {} : { steps }),
    ...(triggers === undefined ? {} : { triggers }),
    ...(settings === undefined ? {} : { settings }),
  } as DefinitionInput;
}
