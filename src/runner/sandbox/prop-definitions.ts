/** A prop definition as a component wrote it, with short forms expanded and propDefinition resolved. It still has its functions. */
export type ResolvedProp = Record<string, unknown> & { type: string };

type Loose = Record<string, unknown>;

/** Attributes of a definition that describe how it is built and not the prop. */
const internalAttributes = new Set(['propDefinition', 'propDefinitions', 'methods']);

/** Maximum definitions that refer to each other. A longer chain is a circle. */
const chainMax = 10;

/** Definitions of the platform, to which components of an app refer and which no file of the app contains. */
const platformDefinitions: Readonly<Record<string, Readonly<Record<string, Loose>>>> = {
  schedule: { cron: { type: '$.interface.timer', label: 'Schedule' } },
};

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
  const layers: Loose[] = [];
  let next: unknown = reference;
  while (Array.isArray(next) && layers.length < chainMax) {
    const found = referredDefinition(next as [unknown, unknown]);
    if (found === undefined) break;
    const { propDefinition, ...rest } = found;
    layers.unshift(rest);
    next = propDefinition;
  }
  return Object.assign({}, ...layers) as Loose;
}

/** The definition that an app has under a name; undefined when it has none. */
function referredDefinition([app, definitionName]: readonly [unknown, unknown]): Loose | undefined {
  if (typeof app !== 'object' || app === null) return undefined;
  const name = String(definitionName);
  const { propDefinitions, app: slug } = app as Loose;
  const found =
    ownValue(propDefinitions, name) ?? ownValue(ownValue(platformDefinitions, String(slug)), name);
  if (typeof found === 'string') return { type: found };
  return typeof found === 'object' && found !== null ? (found as Loose) : undefined;
}

function ownValue(record: unknown, key: string): unknown {
  if (typeof record !== 'object' || record === null || !Object.hasOwn(record, key)) return undefined;
  return (record as Loose)[key];
}

/** The definition for callers of the API: its name, no functions, and `remoteOptions` where options come from the code. */
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
