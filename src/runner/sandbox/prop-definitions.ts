/** A prop definition as a component wrote it, short forms opened and propDefinition resolved. Functions still inside. */
export type ResolvedProp = Record<string, unknown> & { type: string };

type Loose = Record<string, unknown>;

/** What a definition says about how it is made, not about the prop. */
const internalAttributes = new Set(['propDefinition', 'propDefinitions', 'methods', 'remote']);

/**
 * `definition` may be a type as text (`"$.service.db"`), an app object, or a definition with
 * `propDefinition: [app, name, (function or object)?]`, whose own attributes win over the inherited ones.
 * An unknown name is tolerated when the definition has its own type. Throws an Error that names the prop.
 */
export function resolveProp(name: string, definition: unknown): ResolvedProp {
  if (typeof definition === 'string') return { type: definition };
  if (typeof definition !== 'object' || definition === null) {
    throw new TypeError(
      `prop ${name}: expected a definition, found ${definition === null ? 'null' : typeof definition}`,
    );
  }
  const own = definition as Loose;
  const inherited = own.propDefinition === undefined ? {} : inheritedAttributes(name, own.propDefinition);
  const merged: Loose = { ...inherited, ...own };
  delete merged.propDefinition;
  if (typeof merged.type !== 'string' || merged.type === '') {
    const reference = Array.isArray(own.propDefinition)
      ? ` and propDefinition ${String(own.propDefinition[1])} is not known`
      : '';
    throw new TypeError(`prop ${name} has no type${reference}`);
  }
  return merged as ResolvedProp;
}

function inheritedAttributes(name: string, reference: unknown): Loose {
  if (!Array.isArray(reference))
    throw new TypeError(`prop ${name}: propDefinition must be an array of app and name`);
  const [app, definitionName] = reference as [unknown, unknown];
  const definitions = typeof app === 'object' && app !== null ? (app as Loose).propDefinitions : undefined;
  if (typeof definitions !== 'object' || definitions === null) return {};
  const found = Object.hasOwn(definitions, String(definitionName))
    ? (definitions as Loose)[String(definitionName)]
    : undefined;
  if (typeof found === 'string') return { type: found };
  if (typeof found !== 'object' || found === null) return {};
  const definition = found as Loose;
  // A chain is not used anywhere we know of; one more step costs nothing and a cycle ends by itself.
  const { propDefinition, ...rest } = definition;
  return propDefinition === undefined || propDefinition === reference
    ? rest
    : { ...inheritedOnce(propDefinition), ...rest };
}

function inheritedOnce(reference: unknown): Loose {
  if (!Array.isArray(reference)) return {};
  const definitions = (reference[0] as Loose | undefined)?.propDefinitions as Loose | undefined;
  const found = definitions?.[String(reference[1])];
  return typeof found === 'object' && found !== null ? { ...(found as Loose) } : {};
}

/** The definition as callers of the API see it: its name, no functions, `remoteOptions` where options are asked for. */
export function publicProp(name: string, definition: unknown): Loose {
  const resolved = resolveProp(name, definition);
  const shown: Loose = { name, type: resolved.type };
  for (const key of Object.keys(resolved)) {
    if (key === 'type' || key === 'name' || internalAttributes.has(key)) continue;
    const value = resolved[key];
    if (key === 'options' && typeof value === 'function') shown.remoteOptions = true;
    else if (typeof value !== 'function' && value !== undefined) shown[key] = value;
  }
  return shown;
}
