import TurndownService from 'turndown';
import { type ActionRun, textOf } from '../../action.ts';

export default {
  key: 'formatting-convert-html-to-markdown',
  name: '[Text] Convert HTML to Markdown',
  version: '0.0.1',
  description: 'Converts HTML to Markdown. Example: `"<h1>News</h1>"` becomes `"# News"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'HTML, a page or a part of one' },
  },
  async run(this: { input: string }, { $ }: ActionRun) {
    const converter = new TurndownService({
      headingStyle: 'atx',
      codeBlockStyle: 'fenced',
      bulletListMarker: '-',
    }).remove(['script', 'style', 'noscript', 'title']);
    const result = converter.turndown(textOf('input', this.input));
    $.export('$summary', 'Converted HTML to Markdown');
    return result;
  },
};
