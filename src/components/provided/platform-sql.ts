import { ConfigurationError } from './platform-errors.ts';

/**
 * Defaults that a database app spreads into its own `methods` and overrides. A component that calls one the app did
 * not write gets an error that names it, instead of "undefined is not a function".
 */
export const sqlProp = {
  methods: {
    /** Turns the value of an `sql` prop into the argument of `executeQuery`. */
    executeQueryAdapter: notImplemented('executeQueryAdapter'),
    /** Tables and columns, for the query editor. */
    getSchema: notImplemented('getSchema'),
  },
};

export const sqlProxy = {
  methods: {
    /** Connection settings in the form of the database's client. */
    getClientConfiguration: notImplemented('getClientConfiguration'),
    executeQuery: notImplemented('executeQuery'),
    /** Turns the value of an `sql` prop into the argument of a query sent through a proxy. */
    proxyAdapter: notImplemented('proxyAdapter'),
  },
};

function notImplemented(name: string): (...args: unknown[]) => never {
  return () => {
    throw new ConfigurationError(`${name} is not implemented by this app`);
  };
}

/** Types that apps import; they are erased when an app is bundled. */
export type ExecuteQueryArgs = object | string;

export interface ColumnSchema {
  columnDefault: string | number | boolean | null;
  dataType: string;
  isNullable: boolean;
  tableSchema?: string;
}

export interface TableMetadata {
  rowCount?: number;
}

export type TableSchema = Record<string, ColumnSchema>;

export interface TableInfo {
  metadata: TableMetadata;
  schema: TableSchema;
}

/** What `getSchema` answers, by table. */
export type DbInfo = Record<string, TableInfo>;
