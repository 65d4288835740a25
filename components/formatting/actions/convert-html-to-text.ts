import TurndownService from 'turndown';
import { type ActionRun, textOf } from '../../action.ts';

export default {
  key: 'formatting-convert-html-to-text',
  name: '[Text] Convert HTML to Text',
  version: '0.0.1',
  description:
    'Removes the tags of HTML, and keeps paragraphs and lists as lines. Example: `"<p>A &amp; <b>B</b></p>"` becomes `"A & B"`',
  type: 'action',
  props: {
    input: { type: 'string', label: 'Input', description: 'HTML, a page or a part of one' },
  },
  async run(this: { input: string }, { $ }: ActionRun) {
    const converter = new TurndownService({ bulletListMarker: '-' }).remove([
      'script',
      'style',
      'noscript',
      'title',
    ]);
    // Markdown without its marks: what begins a line or a paragraph still does.
    converter.escape = (text) => text;
    const marked = ['strong', 'b', 'em', 'i', 'code', 'a', 'img'] as const;
    converter.addRule('inline', { filter: [...marked], replacement: (content) => content });
    converter.addRule('block', {
      filter: ['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'blockquote', 'pre', 'hr'],
      replacement: (content) => `\n\n${content}\n\n`,
    });
    const result = converter.turndown(textOf('input', this.input)).replace(/ +$/gm, '');
    $.export('$summary', 'Converted HTML to text');
    return result;
  },
};
