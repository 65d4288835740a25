import type { Schema } from './api-document.ts';
import { link, type NamedShape, namedIn, objectOf, shapeOf } from './api-shapes.ts';

/** Fields of an object, those of objects in it too, as `settings.name` and `steps[].namespace`. */
export function fieldRows(schema: Schema, shapes: readonly NamedShape[], prefix = ''): string[][] {
  const object = objectOf(schema);
  return Object.entries(object.properties ?? {}).flatMap(([name, field]) => {
    const path = `${prefix}${name}`;
    const row = [`\`${path}\``, typeText(field, shapes), meaning(field)];
    if (namedIn(field, shapes) !== undefined) return [row];
    const inner = objectOf(field);
    const item = objectOf(inner.items ?? {});
    if (inner.properties !== undefined) return [row, ...fieldRows(inner, shapes, `${path}.`)];
    return item.properties === undefined ? [row] : [row, ...fieldRows(item, shapes, `${path}[].`)];
  });
}

/** `Required.` before the meaning of fields that a body must have. */
export function requiredMarked(rows: string[][], required: readonly string[] = []): string[][] {
  return rows.map(([name = '', type = '', text = '']) =>
    required.some((field) => name === `\`${field}\``)
      ? [name, type, `Required. ${text}`.trim()]
      : [name, type, text],
  );
}

/** A type in words: a link where it has a name, else such as `array of string`, or the values that there are. */
export function typeText(schema: Schema, shapes: readonly NamedShape[]): string {
  const named = shapeOf(schema, shapes);
  if (named !== undefined) return link(named);
  if (schema.enum !== undefined)
    return schema.enum.map((value) => (value === '' ? 'empty' : `\`${String(value)}\``)).join(', ');
  if (schema.anyOf !== undefined) {
    const types = new Set(schema.anyOf.map((one) => typeText(one, shapes)));
    return [...types].join(' or ');
  }
  if (schema.type === 'array') {
    const item = typeText(schema.items ?? {}, shapes);
    return item === 'any' ? 'array' : `array of ${item}`;
  }
  return schema.type ?? (schema.allOf === undefined ? 'any' : 'object');
}

/** The description, then bounds and default. */
export function meaning(schema: Schema): string {
  const { description = '', minimum, maximum, minLength, maxLength } = schema;
  const bounds = [
    ...(minimum !== undefined && maximum !== undefined
      ? [`${minimum} to ${maximum}`]
      : minimum !== undefined
        ? [`at least ${minimum}`]
        : maximum !== undefined
          ? [`at most ${maximum}`]
          : []),
    ...(maxLength === undefined
      ? []
      : [
          `${minLength !== undefined && minLength > 0 ? `${minLength} to` : 'at most'} ${maxLength} characters`,
        ]),
    ...(schema.default === undefined ? [] : [`default \`${JSON.stringify(schema.default)}\``]),
  ].join(', ');
  return [plain(description), bounds].filter((text) => text !== '').join('; ');
}

/** A sentence of the document, with what Markdown would take for HTML as text. */
export function plain(text: string): string {
  return text.replaceAll('<', '\\<').replaceAll('*', '\\*');
}

/** A table of Markdown. */
export function table(head: string[], rows: string[][]): string {
  const line = (cells: string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
