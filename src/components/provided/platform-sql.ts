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
    throw new Error(`${name} is not implemented by this app`);
  };
}
