import type { OwnFile } from './build-messages.ts';
import { pathOfOwnModule } from './own-module-name.ts';

/** A map is for the lines of the component's own files; beyond this, errors show lines of the bundle instead. */
const mapBytesMax = 4 * 1024 * 1024;

/** Stands for files that are left out. */
const noSource = 'none:';
/** The only place that this map knows is a column that no file has. */
const farMap = JSON.stringify({ version: 3, sources: [noSource], names: [], mappings: 'gggggQAAA' });

/**
 * A file of a package, or one of ours, so that it takes no place in the map of a bundle: esbuild then assumes that it was
 * made from the sources of an empty map.
 */
export function withoutMap(contents: Uint8Array): Uint8Array {
  return Buffer.concat([contents, lastComment(Buffer.from(farMap).toString('base64'))]);
}

/** A file of the component's own, mapped as it is, whatever it says it was made from. */
export function withOwnMap(text: string): string {
  // Without one it stays as it is, so that an error at its end is reported there.
  if (!text.includes('sourceMappingURL')) return text;
  return `${text}${lastComment(Buffer.from('{}').toString('base64'))}`;
}

/**
 * The last such comment of a file counts. One that names a file must never count: esbuild would read that natively,
 * from wherever it is, past all rules of the builder.
 */
function lastComment(base64: string): Buffer {
  return Buffer.from(`\n//# sourceMappingURL=data:application/json;base64,${base64}`);
}

/**
 * esbuild's map of a bundle as the last line of it: what error-report.ts of the sandbox looks for. Sources get the names
 * that their author knows: `component.ts` for code from a request, a path for what came from an address.
 */
export function mapComment(mapText: string, entry: OwnFile): string {
  if (mapText === '') return '';
  const { sources, mappings } = JSON.parse(mapText) as { sources: string[]; mappings: string };
  const map = JSON.stringify({
    version: 3,
    sources: sources.map((source) => (source === noSource ? '' : shownName(source, entry))),
    names: [],
    mappings,
  });
  if (map.length > mapBytesMax) return '';
  return `//# sourceMappingURL=data:application/json;base64,${Buffer.from(map).toString('base64')}\n`;
}

function shownName(source: string, entry: OwnFile): string {
  const path = pathOfOwnModule(source.replace(/^own:/, ''));
  if (path === entry.path && !URL.canParse(path) && !/\.[cm]?[jt]s$/.test(path))
    return entry.loader === 'ts' ? 'component.ts' : 'component.js';
  // A query may hold a key to the file.
  return URL.canParse(path) ? decodeURI(new URL(path).pathname).replace(/^\/+/, '') : path;
}
