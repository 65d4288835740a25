import { Ajv2020 } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { type ActionRun, badInput, ConfigurationError, counted, parsedValue } from '../../action.ts';

export default {
  key: 'json-validate',
  name: 'Validate JSON against a Schema',
  version: '0.0.1',
  description:
    'Checks a value against a JSON Schema, and returns what is wrong with it. Example: `{"id": "7"}` against `{"properties": {"id": {"type": "integer"}}}` gives the error `/id must be integer`',
  type: 'action',
  props: {
    input: { type: 'any', label: 'Input', description: 'Value to check, or JSON text of an object or array' },
    schema: { type: 'object', label: 'Schema', description: 'JSON Schema of draft 2020-12, 2019-09 or 7' },
    failOnErrors: {
      type: 'boolean',
      label: 'Fail on errors',
      description: 'End the run with an error when the value does not match',
      optional: true,
      default: false,
    },
  },
  async run(this: { input: unknown; schema: unknown; failOnErrors?: boolean }, { $ }: ActionRun) {
    const validate = compile(parsedValue('schema', this.schema));
    const valid = validate(parsedValue('input', this.input));
    const errors = (validate.errors ?? []).map(({ instancePath, message = '', keyword, params }) => ({
      path: instancePath,
      message: `${instancePath} ${message}`.trim(),
      keyword,
      params,
    }));
    const found = counted(errors.length, 'error');
    $.export('$summary', valid ? 'The value matches the schema' : `Found ${found}`);
    if (!valid && this.failOnErrors === true)
      throw new Error(`input: found ${found}: ${errors.map(({ message }) => message).join('; ')}`);
    return { valid, errors };
  },
};

function compile(schema: unknown) {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema))
    throw badInput('schema', schema, 'a JSON Schema');
  // Drafts differ in keywords that are rare: every schema is read as one of 2020-12.
  const { $schema: _, ...known } = schema as Record<string, unknown>;
  try {
    const ajv = new Ajv2020({ allErrors: true, strict: false, logger: false });
    ajvFormats.default(ajv);
    return ajv.compile(known);
  } catch (error) {
    throw new ConfigurationError(`schema: found no valid JSON Schema (${(error as Error).message})`);
  }
}
