import { Type } from 'typebox';
import { definitionFields } from '#http/routes/workflow-shapes.ts';

/** What the schema of a request says of steps in blocks, whose fields it does not repeat. */
const innerSteps = 'Steps with the same fields as those of the workflow';

/**
 * JSON Schema of a workflow as `POST /v1/workflows` takes it, with blocks in blocks: for editors, and programs that write workflows.
 * What cannot be said in it (unique names, fields by kind of block, references) is checked when a workflow is deployed.
 */
export function workflowSchema(): string {
  const { properties } = JSON.parse(JSON.stringify(Type.Object(definitionFields))) as {
    properties: { steps: { items: object } };
  };
  const step = { $ref: '#/$defs/step' };
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Millrace workflow',
    type: 'object',
    properties: { ...properties, steps: { ...properties.steps, items: step } },
    additionalProperties: false,
    $defs: { step: withInnerSteps(properties.steps.items, step) },
  };
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}

function withInnerSteps(schema: unknown, step: object): unknown {
  if (Array.isArray(schema)) return schema.map((part) => withInnerSteps(part, step));
  if (typeof schema !== 'object' || schema === null) return schema;
  if ('description' in schema && schema.description === innerSteps)
    return { type: 'array', items: step, description: innerSteps };
  return Object.fromEntries(Object.entries(schema).map(([key, part]) => [key, withInnerSteps(part, step)]));
}
