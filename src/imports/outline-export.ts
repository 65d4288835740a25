import { isRecord } from '#components/validate-props.ts';
import { nameOf, type ProjectFiles } from './project-files.ts';
import { readYaml } from './read-yaml.ts';
import { hasSecretForm } from './secret-forms.ts';

/** Records and lists within one another that an outline shows. */
const depthMax = 20;
const knownName = /^[A-Za-z_$][\w$-]{0,40}$/;

/**
 * The structure of an export without its content, for a report of a format that is not understood: names of keys, types of values, and of
 * ids only their prefixes. Texts, numbers, code, paths and unusual names are left out.
 */
export function outlineExport(files: ProjectFiles): Record<string, unknown> {
  let count = 0;
  const outline: Record<string, unknown> = {};
  for (const [path, text] of [...files].sort()) {
    const name = nameOf(path);
    if (!/\.(?:json|ya?ml)$/.test(name)) continue;
    const isCommon = name === 'manifest.json' || /^workflow\.ya?ml$/.test(name);
    count += 1;
    outline[`${'folder/'.repeat(path.split('/').length - 1)}${isCommon ? name : 'file'}#${count}`] =
      outlineText(name, text);
  }
  return outline;
}

function outlineText(name: string, text: string): unknown {
  try {
    return outlineOf(name.endsWith('.json') ? (JSON.parse(text) as unknown) : readYaml(text), depthMax);
  } catch {
    return 'cannot be parsed';
  }
}

function outlineOf(value: unknown, left: number): unknown {
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'string') return formOf(value);
  if (typeof value !== 'object') return typeof value;
  if (left === 0) return '…';
  if (Array.isArray(value)) {
    // Elements of the same form are shown once.
    const forms = new Map(
      value.map((item) => [JSON.stringify(outlineOf(item, left - 1)), outlineOf(item, left - 1)]),
    );
    return [...forms.values()];
  }
  if (!isRecord(value)) return 'object';
  return Object.fromEntries(
    Object.entries(value).map(([key, inner], at) => [
      knownName.test(key) && !hasSecretForm(key) ? key : `key${at}`,
      outlineOf(inner, left - 1),
    ]),
  );
}

function formOf(text: string): string {
  const [, prefix] = /^([a-z]{1,4}_)[A-Za-z0-9]{5,30}$/.exec(text) ?? [];
  if (prefix !== undefined) return `${prefix}…`;
  if (text === '') return '';
  if (text.includes('{{')) return 'text with an expression';
  if (/^\s*[[{]/.test(text)) return 'text of JSON';
  return text.includes('\n') ? 'text of several lines' : 'text';
}
