/**
 *   asking  -> waiting            answers came
 *           -> failed             none came in time
 *   waiting -> running -> done    each workflow in a transaction of its own
 *                      -> failed  the import itself failed; what it had made stays, and can be undone
 *   asking, done, failed -> undone  what it had made was removed, unless it was changed since
 */
export const importStates = ['asking', 'waiting', 'running', 'done', 'failed', 'undone'] as const;
export type ImportState = (typeof importStates)[number];

/** The forms in which projects of another service come. */
export const projectFormats = ['synced_repository', 'project_export', 'bundle'] as const;
export type ProjectFormat = (typeof projectFormats)[number];

/** A project of another service that is, or was, brought here. Flags are 0 or 1; times are epoch ms. */
export interface ImportTable {
  /** imp_… */
  id: string;
  owner_id: string;
  /** The user who started it, with whose rights it is done. */
  user_id: string;
  /** The API key or access token of the request. */
  key_id: string;
  /** proj_… that the workflows are put into; '': none. */
  project_id: string;
  format: ProjectFormat;
  state: ImportState;
  /** 1: workflows that are ready are activated. */
  activate: number;
  /** JSON of the project and the answers, sealed for the id; null once it is done: secrets may stand in it. */
  sealed: string | null;
  /** JSON: keys and problems of the export. */
  summary: string;
  /** Items of the report when it is done: workflows, sources, webhooks and subscriptions. */
  workflows: number;
  error: string | null;
  /** The node that undoes it; null: none does. That of a node that is gone counts for nothing. */
  undo_node: string | null;
  created_at_ms: number;
  updated_at_ms: number;
}

/** The outcome of one workflow, source, webhook or subscription of an import. That of a workflow is written in the transaction that made it. */
export interface ImportItemTable {
  import_id: string;
  owner_id: string;
  /** In the order of the export, from 0. */
  position: number;
  /** JSON of an `ImportItem` or an `ObjectItem` (imports/report.ts). */
  item: string;
}

export const importedKinds = [
  'workflow',
  'data_store',
  'variable',
  'account',
  'source',
  'webhook',
  'subscription',
] as const;
export type ImportedKind = (typeof importedKinds)[number];

/** What an object of another service is here, so that a later import recognises it. */
export interface ImportedObjectTable {
  owner_id: string;
  /** proj_…; '': none. One project may be imported into several. */
  project_id: string;
  kind: ImportedKind;
  /** Its id there; of a variable its name. */
  old_id: string;
  /** Its id here. */
  new_id: string;
  /** The import that made it. */
  import_id: string;
  /** Hash of what it was made from; differs when the import brings a change. */
  fingerprint: string;
  /** JSON: what it was when it was last imported; differs when it was changed here. */
  mark: string;
  created_at_ms: number;
}
