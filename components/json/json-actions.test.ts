import { testActions } from '../../test/support/test-actions.ts';

const schema = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  type: 'object',
  required: ['id', 'email'],
  properties: { id: { type: 'integer' }, email: { type: 'string', format: 'email' } },
};
const order = {
  items: [
    { name: 'Tea', price: 3 },
    { name: 'Cup', price: 12 },
  ],
};

testActions(
  ['json'],
  [
    ['json-validate', { input: { id: 7, email: 'ada@example.com' }, schema }, { valid: true, errors: [] }],
    [
      'json-validate',
      { input: '{"id": "7", "email": "ada"}', schema: JSON.stringify(schema) },
      {
        valid: false,
        errors: [
          { path: '/id', message: '/id must be integer', keyword: 'type', params: { type: 'integer' } },
          {
            path: '/email',
            message: '/email must match format "email"',
            keyword: 'format',
            params: { format: 'email' },
          },
        ],
      },
    ],
    [
      'json-validate',
      { input: { id: 'x' }, schema, failOnErrors: true },
      /^input: found 2 errors: must have required property 'email'; \/id must be integer$/,
      'Error',
    ],
    ['json-validate', { input: 1, schema: { type: 'whole' } }, /^schema: found no valid JSON Schema \(/],
    ['json-validate', { input: 1, schema: [1] }, /^schema: found an array, expected a JSON Schema$/],

    ['json-transform', { input: order, expression: '$sum(items.price)' }, 15],
    [
      'json-transform',
      { input: JSON.stringify(order), expression: 'items[price > 10].{"of": name}' },
      { of: 'Cup' },
    ],
    ['json-transform', { input: order, expression: 'nothing' }, null],
    ['json-transform', { input: order, expression: 'items[' }, /^expression: .+ at character 6$/],
    ['json-transform', { input: order, expression: '$number("x")' }, /^expression: .+/],
    ['json-transform', { input: '{"a":', expression: 'a' }, /^input: found JSON that does not parse \(/],
  ],
);
