/**
 * The client, and the names of its methods that were called, as `resource.method`. Only fields that are objects are
 * looked into.
 */
export function recordMethods<Client extends object>(
  client: Client,
): { client: Client; called: Set<string> } {
  const called = new Set<string>();
  const recorded = new Proxy(client, {
    get(target, name) {
      const resource: unknown = Reflect.get(target, name);
      if (typeof resource !== 'object' || resource === null) return resource;
      return new Proxy(resource, {
        get(methods, method) {
          const own: unknown = Reflect.get(methods, method);
          if (typeof own !== 'function') return own;
          return (...parameters: unknown[]) => {
            called.add(`${String(name)}.${String(method)}`);
            return own.apply(methods, parameters);
          };
        },
      });
    },
  });
  return { client: recorded, called };
}
