import type { Tables } from '#storage/tables.ts';

/** Reseals one text of a cell; `objectId` is the object that it was sealed for. */
export type Reseal = (objectId: string, sealed: string) => string;

/** A column that holds sealed texts. Rows carry their owner in `owner_id`. */
export interface SealedColumn {
  table: keyof Tables;
  column: string;
  /** The primary key. What is sealed is bound to the id of the row, unless `map` says otherwise. */
  key: readonly string[];
  /** The content of a cell with each sealed text in it replaced. */
  map(content: string, rowId: string, reseal: Reseal): string;
}

/** Table of contents of everything sealed: data keys are rotated by this list. */
export const sealedColumns: readonly SealedColumn[] = [
  { table: 'accounts', column: 'sealed', key: ['id'], map: mapText },
  { table: 'oauth_clients', column: 'sealed_secret', key: ['id'], map: mapText },
  { table: 'connect_flows', column: 'sealed', key: ['id'], map: mapText },
  { table: 'webhooks', column: 'secret', key: ['id'], map: mapText },
  { table: 'webhooks', column: 'old_secret', key: ['id'], map: mapText },
  { table: 'triggers', column: 'auth', key: ['workflow_id', 'id'], map: mapText },
  { table: 'sources', column: 'sealed_props', key: ['id'], map: mapProps },
  { table: 'sources', column: 'before_change', key: ['id'], map: mapBeforeChange },
  { table: 'idempotency_keys', column: 'answer', key: ['id'], map: mapText },
  { table: 'variables', column: 'sealed', key: ['id'], map: mapText },
  { table: 'imports', column: 'sealed', key: ['id'], map: mapText },
  { table: 'deployments', column: 'definition', key: ['id'], map: mapDefinition },
];

/** The cell is one sealed text, or a mark that nothing is sealed (such as a trigger that asks for tokens of others). */
function mapText(content: string, rowId: string, reseal: Reseal): string {
  return content.startsWith('v1.') ? reseal(rowId, content) : content;
}

/** JSON object: each prop's value, sealed for `<id>:<prop>`. */
function mapProps(content: string, id: string, reseal: Reseal): string {
  const props = JSON.parse(content) as Record<string, string>;
  return JSON.stringify(
    Object.fromEntries(
      Object.entries(props).map(([name, sealed]) => [name, reseal(`${id}:${name}`, sealed)]),
    ),
  );
}

/** JSON of columns of the source; sealed props are JSON in it. */
function mapBeforeChange(content: string, sourceId: string, reseal: Reseal): string {
  const before = JSON.parse(content) as { sealed_props: string | null };
  if (before.sealed_props === null) return content;
  return JSON.stringify({ ...before, sealed_props: mapProps(before.sealed_props, sourceId, reseal) });
}

/** JSON of a workflow; each step has its sealed props as JSON, or null. */
function mapDefinition(content: string, _deploymentId: string, reseal: Reseal): string {
  if (!content.includes('"sealedProps":"')) return content;
  const definition = JSON.parse(content) as { steps: { id: string; sealedProps: string | null }[] };
  const steps = definition.steps.map((step) =>
    step.sealedProps === null ? step : { ...step, sealedProps: mapProps(step.sealedProps, step.id, reseal) },
  );
  return JSON.stringify({ ...definition, steps });
}
