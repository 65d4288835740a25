/**
 * What a component gets for `import { defineSource } from '@pipedream/types'`: functions that return what they are
 * given, so that an editor can check and complete it. Written here; bundled into components.
 */

export type JSONValue = string | number | boolean | null | JSONValue[] | { [key: string]: JSONValue };

/** Metadata of an emitted event. */
export interface EmitMetadata {
  id?: string | number;
  summary?: string;
  /** Epoch milliseconds. */
  ts?: number;
  name?: string;
}

/** What `run` of a source with an HTTP interface is given. */
export interface SourceHttpRunOptions {
  method: string;
  path: string;
  query: Record<string, string>;
  headers: Record<string, string>;
  bodyRaw: string;
  body: JSONValue;
}

/** What `run` of a source with a timer is given. */
export interface SourceTimerRunOptions {
  /** Epoch seconds. */
  timestamp: number;
  interval_seconds?: number;
  cron?: string;
}

export interface AppDefinition {
  type: 'app';
  app: string;
  propDefinitions?: Record<string, unknown>;
  methods?: Record<string, unknown>;
  [attribute: string]: unknown;
}

export interface SourceDefinition {
  name?: string;
  key?: string;
  version?: string;
  description?: string;
  type?: 'source';
  props?: Record<string, unknown>;
  dedupe?: 'unique' | 'greatest' | 'last';
  [attribute: string]: unknown;
}

export interface ActionDefinition {
  type: 'action';
  name?: string;
  key?: string;
  version?: string;
  description?: string;
  props?: Record<string, unknown>;
  [attribute: string]: unknown;
}

export function defineApp<T extends AppDefinition>(app: T): T {
  return app;
}

export function defineSource<T extends SourceDefinition>(source: T): T {
  return source;
}

export function defineAction<T extends ActionDefinition>(action: T): T {
  return action;
}

/** For code that asks for the whole module, as `require` does. */
export default { defineApp, defineSource, defineAction };
