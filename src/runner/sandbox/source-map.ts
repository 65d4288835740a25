import { SourceMap, type SourceMapPayload } from 'node:module';
import { jsonParse } from './primordials.ts';

/** Start of a bundle's last line, as components/builder/own-source-map.ts writes it. */
const marker = '//# sourceMappingURL=data:application/json;base64,';
/** Maximum characters of that line. The builder writes no longer one. */
const lineCharactersMax = 8 * 1024 * 1024;
const sourceNameCharactersMax = 500;

/** Texts of bundles by the name under which they run. After the first use, `maps` has their map instead. */
const bundles = new Map<string, string>();
const maps = new Map<string, SourceMap | null>();

/** Removes the names of a deployment's folder, which tell the reader of a stack nothing. */
export function withoutPlaces(text: string): string {
  return text.includes('/component/') ? text.replaceAll(/\/component\/[\w-]+@\d+\//g, '/component/') : text;
}

/** Path of the program that contains this module: one CommonJS file. Absent where the source files run directly. */
declare const __filename: string | undefined;
const ownProgram = typeof __filename === 'string' ? __filename : undefined;

/** Called when a bundle is loaded. Only keeps a reference. `name` is a path or a file URL. */
export function rememberBundle(name: string, code: string): void {
  bundles.set(name, code);
  maps.delete(name);
}

export function forgetMap(name: string): void {
  bundles.delete(name);
  maps.delete(name);
}

/**
 * Maps the lines of a stack to the sources that the author wrote. Lines of this program are left out. Lines without a mapping (a package, the
 * bundler's helpers) stay unchanged. Never throws, whatever the stack and the map contain.
 */
export function mapStack(stack: string): string {
  try {
    const lines = stack.split('\n');
    const kept = lines.filter((line) => !isOwnFrame(line));
    return kept.map(mapFrame).join('\n');
  } catch {
    return stack;
  }
}

function isOwnFrame(line: string): boolean {
  return ownProgram !== undefined && /^\s+at /.test(line) && line.includes(ownProgram);
}

/** `    at name (file:line:column)` or `    at file:line:column`, and `async` or `new` before the name. */
const frame = /^(\s+at (?:.*\()?(?:async )?)((?:file:\/\/)?\/[^\s():]+):(\d+):(\d+)(\)?)$/;

function mapFrame(line: string): string {
  const match = frame.exec(line);
  if (match === null) return line;
  const [, before = '', file = '', lineText, columnText, after = ''] = match;
  const place = originalPlace(file, Number(lineText), Number(columnText));
  return place === undefined ? line : `${before}${place}${after}`;
}

function originalPlace(file: string, line: number, column: number): string | undefined {
  const map = mapOf(file);
  const entry = map?.findEntry(line - 1, column - 1);
  // Unmapped code may follow mapped code, so the entry must begin in the same line.
  if (entry === undefined || !('originalSource' in entry) || entry.generatedLine !== line - 1)
    return undefined;
  const { originalSource: source, originalLine, originalColumn } = entry;
  if (typeof source !== 'string' || source === '') return undefined;
  return `${source.slice(0, sourceNameCharactersMax)}:${originalLine + 1}:${originalColumn + 1}`;
}

function mapOf(file: string): SourceMap | null {
  let map = maps.get(file);
  if (map === undefined) {
    map = readMap(bundles.get(file));
    bundles.delete(file);
    maps.set(file, map);
  }
  return map;
}

function readMap(code: string | undefined): SourceMap | null {
  if (code === undefined) return null;
  const start = code.lastIndexOf('\n', code.length - 2) + 1;
  if (!code.startsWith(marker, start) || code.length - start > lineCharactersMax) return null;
  try {
    const text = Buffer.from(code.slice(start + marker.length), 'base64').toString('utf8');
    return new SourceMap(jsonParse(text) as SourceMapPayload);
  } catch {
    return null;
  }
}
