import type { Schema } from './api-document.ts';

/** Writes JSON schemas as TypeScript types; a schema that has a name is written as that name. */
export class SchemaTypes {
  /** By the schema without its own description. */
  readonly #names = new Map<string, string>();

  /** From now on the schema is this name, wherever it stands. Fails for a second name of the same schema. */
  name(schema: Schema, name: string): void {
    const key = identity(schema);
    const known = this.#names.get(key);
    if (known !== undefined) throw new Error(`${name} and ${known} are the same schema: keep one of them`);
    this.#names.set(key, name);
  }

  nameOf(schema: Schema): string | undefined {
    return this.#names.get(identity(schema));
  }

  /** `export interface` or `export type`, with its documentation. */
  declare(name: string, schema: Schema, doc: string): string {
    const type = this.#written(schema, '');
    const isObject = schema.anyOf === undefined && schema.allOf === undefined && type.startsWith('{\n');
    return `${docComment(doc, '')}export ${isObject ? `interface ${name} ${type}` : `type ${name} = ${type};`}\n`;
  }

  /** The type as it stands in a place that is indented by `indent`. */
  type(schema: Schema, indent = ''): string {
    return this.nameOf(schema) ?? this.#written(schema, indent);
  }

  #written(schema: Schema, indent: string): string {
    const { anyOf, allOf, type } = schema;
    if (schema.enum !== undefined) return schema.enum.map(literal).join(' | ');
    if (anyOf !== undefined) return this.#joined(anyOf, ' | ', indent);
    if (allOf !== undefined) return this.#joined(allOf, ' & ', indent);
    switch (type) {
      case 'string':
      case 'boolean':
      case 'null':
        return type;
      case 'integer':
      case 'number':
        return 'number';
      case 'array': {
        const item = this.type(schema.items ?? {}, indent);
        return / [|&] /.test(item) ? `(${item})[]` : `${item}[]`;
      }
      case 'object':
        return this.#object(schema, indent);
      case undefined:
        return 'unknown';
      default:
        throw new Error(`no TypeScript is known for the schema type ${type}`);
    }
  }

  #joined(schemas: readonly Schema[], by: ' | ' | ' & ', indent: string): string {
    return [...new Set(schemas.map((schema) => this.type(schema, indent)))]
      .map((type) => (by === ' & ' && / \| /.test(type) && !type.startsWith('{') ? `(${type})` : type))
      .join(by);
  }

  #object({ properties, required = [], additionalProperties }: Schema, indent: string): string {
    if (properties === undefined || Object.keys(properties).length === 0) {
      const values =
        typeof additionalProperties === 'object' ? this.type(additionalProperties, indent) : 'unknown';
      return `Record<string, ${values}>`;
    }
    const lines = Object.entries(properties).map(([name, schema]) => {
      const inner = `${indent}  `;
      const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : literal(name);
      const mark = required.includes(name) ? '' : '?';
      return `${docComment(notes(schema), inner)}${inner}${key}${mark}: ${this.type(schema, inner)};\n`;
    });
    return `{\n${lines.join('')}${indent}}`;
  }
}

/** What the type does not say: the description, bounds and the default. */
export function notes(schema: Schema): string {
  // The bounds of what may be null stand beside the null.
  const [only, ...others] = (schema.anyOf ?? []).filter((one) => one.type !== 'null');
  const bounded = only !== undefined && others.length === 0 ? { ...only, default: schema.default } : schema;
  const { minimum, maximum, minLength, maxLength, default: preset, format, type } = bounded;
  const bounds = [
    type === 'integer' ? 'integer' : undefined,
    format === undefined ? undefined : `format ${format}`,
    range(minimum, maximum, ''),
    range(minLength, maxLength, ' characters'),
    preset === undefined ? undefined : `default ${JSON.stringify(preset)}`,
  ].filter((note) => note !== undefined);
  const text = schema.description ?? '';
  if (bounds.length === 0) return text;
  return text === '' ? sentence(bounds.join(', ')) : `${text} (${bounds.join(', ')})`;
}

function range(from: number | undefined, to: number | undefined, unit: string): string | undefined {
  if (from === undefined && to === undefined) return undefined;
  if (from === undefined) return `at most ${to}${unit}`;
  return to === undefined ? `at least ${from}${unit}` : `${from} to ${to}${unit}`;
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** With a line break at its end; '' for no text. */
export function docComment(text: string, indent: string): string {
  const lines = wrapped(text.replaceAll('*/', '*\u200b/'), 105 - indent.length);
  if (lines.length === 0) return '';
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`;
}

function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const paragraph of text.split('\n')) {
    let line = '';
    for (const word of paragraph.split(' ')) {
      if (line !== '' && line.length + word.length + 1 > width) {
        lines.push(line);
        line = word;
      } else line = line === '' ? word : `${line} ${word}`;
    }
    lines.push(line);
  }
  while (lines.at(-1) === '') lines.pop();
  return lines;
}

function literal(value: unknown): string {
  return typeof value === 'string'
    ? `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
    : JSON.stringify(value);
}

function identity({ description: _, ...schema }: Schema): string {
  return JSON.stringify(schema);
}
