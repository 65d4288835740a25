import jsonata from 'jsonata';
import { type ActionRun, ConfigurationError, parsedValue, textOf } from '../../action.ts';

export default {
  key: 'json-transform',
  name: 'Transform JSON with JSONata',
  version: '0.0.1',
  description:
    'Queries and reshapes a value with a JSONata expression. Example: `$sum(items.price)` of an order adds the prices of its items',
  type: 'action',
  props: {
    input: {
      type: 'any',
      label: 'Input',
      description: 'Value to transform, or JSON text of an object or array',
    },
    expression: {
      type: 'string',
      label: 'Expression',
      description: 'JSONata, such as `items[price > 10].name`',
    },
  },
  async run(this: { input: unknown; expression: string }, { $ }: ActionRun) {
    const expression = textOf('expression', this.expression);
    const input = parsedValue('input', this.input);
    try {
      const result: unknown = await jsonata(expression).evaluate(input);
      $.export('$summary', 'Transformed the value');
      return result ?? null;
    } catch (error) {
      // JSONata throws objects of its own.
      const { message, position } = error as { message?: string; position?: number };
      const place = position === undefined ? '' : ` at character ${position}`;
      throw new ConfigurationError(`expression: ${message ?? String(error)}${place}`);
    }
  },
};
