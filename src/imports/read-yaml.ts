import { type Document, isScalar, parseDocument, visit } from 'yaml';
import { toError } from '#lib/errors.ts';
import { bytesText } from '#lib/units.ts';

/** A definition of a workflow; its code is in files of its own. */
const yamlBytesMax = 512 * 1024;
/** What aliases may add: writers make them for values that stand in several places. */
const aliasesMax = 100;
/** Mappings and lists within one another. */
const depthMax = 50;
/** Values with a name that aliases refer to: the library looks through all of them for each alias. */
const anchorsMax = 500;

/**
 * The value of a YAML document, read by the core schema of YAML 1.2: `yes` is text. Throws an Error with one sentence for what cannot be
 * read, documents made to take memory (aliases of aliases) or the stack (deep nesting) included.
 */
export function readYaml(text: string): unknown {
  if (Buffer.byteLength(text) > yamlBytesMax) throw new Error(`it is larger than ${bytesText(yamlBytesMax)}`);
  try {
    const document = parseDocument(text, {
      version: '1.2',
      schema: 'core',
      // Its check compares each key with each other.
      uniqueKeys: false,
      prettyErrors: false,
    });
    const [problem] = document.errors;
    if (problem !== undefined) throw problem;
    checkNodes(document);
    const value: unknown = document.toJS({ maxAliasCount: aliasesMax });
    if (isDeeper(value, depthMax)) throw new Error(`it is nested more than ${depthMax} levels deep`);
    return value;
  } catch (error) {
    const { message } = toError(error);
    // What the parser says of nesting that its stack cannot hold.
    if (message.includes('call stack')) throw new Error(`it is nested more than ${depthMax} levels deep`);
    throw new Error(message.split('\n')[0]);
  }
}

/** Throws an Error for keys that stand twice in a mapping, and for too many anchors or aliases. */
function checkNodes(document: Document.Parsed): void {
  let anchors = 0;
  let aliases = 0;
  visit(document, {
    Alias: () => {
      aliases += 1;
      if (aliases > anchorsMax) throw new Error(`it has more than ${anchorsMax} aliases`);
    },
    Value: (_key, { anchor }) => {
      if (anchor !== undefined) anchors += 1;
      if (anchors > anchorsMax) throw new Error(`it has more than ${anchorsMax} anchors`);
    },
    Map: (_key, { items, anchor }) => {
      if (anchor !== undefined) anchors += 1;
      const keys = new Set<unknown>();
      for (const { key } of items) {
        if (!isScalar(key)) continue;
        if (keys.has(key.value)) throw new Error('Map keys must be unique');
        keys.add(key.value);
      }
    },
  });
}

function isDeeper(value: unknown, left: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return left === 0 || Object.values(value).some((inner) => isDeeper(inner, left - 1));
}
