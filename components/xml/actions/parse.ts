import { XMLParser, XMLValidator } from 'fast-xml-parser';
import { type ActionRun, ConfigurationError, textOf } from '../../action.ts';

export default {
  key: 'xml-parse',
  name: 'Parse XML',
  version: '0.0.1',
  description:
    'Turns XML into an object. Attributes begin with `@`. Example: `<order id="7"><item>Tea</item></order>` becomes `{"order": {"@id": "7", "item": "Tea"}}`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'XML text' },
    lists: {
      type: 'string[]',
      label: 'Lists',
      description: 'Names of elements that become lists even when there is only one',
      optional: true,
    },
    attributes: {
      type: 'boolean',
      label: 'Attributes',
      description: 'Keep the attributes of elements',
      optional: true,
      default: true,
    },
    convertTypes: {
      type: 'boolean',
      label: 'Convert types',
      description: 'Numbers, `true` and `false` become values of their types instead of texts',
      optional: true,
      default: false,
    },
  },
  async run(
    this: { input: string; lists?: string[]; attributes?: boolean; convertTypes?: boolean },
    { $ }: ActionRun,
  ) {
    const { lists = [], attributes = true, convertTypes = false } = this;
    const input = textOf('input', this.input).trim();
    const valid =
      input === '' ? { err: { msg: 'it is empty', line: 1, col: 1 } } : XMLValidator.validate(input);
    if (valid !== true) {
      const { msg, line, col } = valid.err;
      throw new ConfigurationError(`input: found no XML (${msg}, line ${line}, column ${col})`);
    }
    const names = new Set(lists);
    const parser = new XMLParser({
      ignoreAttributes: !attributes,
      attributeNamePrefix: '@',
      parseTagValue: convertTypes,
      parseAttributeValue: convertTypes,
      ignoreDeclaration: true,
      isArray: (name) => names.has(name),
    });
    try {
      const result: unknown = parser.parse(input);
      $.export('$summary', 'Parsed the XML');
      return result;
    } catch (error) {
      throw new ConfigurationError(`input: found XML that is refused (${(error as Error).message})`);
    }
  },
};
