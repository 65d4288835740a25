import {
  type Completion,
  type CompletionContext,
  type CompletionResult,
  snippetCompletion,
} from '@codemirror/autocomplete';
import { syntaxTree } from '@codemirror/language';
import type { EditorState, Extension } from '@codemirror/state';
import { type EditorView, hoverTooltip } from '@codemirror/view';
import { visible } from '~/parts/plain-text.ts';
import type { CodeContext } from './code-context.ts';
import { emit, type Known, ofPropType, propFields, propTypes, stepDollar } from './dollar.ts';
import { isName, knownIn, knownSteps } from './known-values.ts';

type SyntaxNode = ReturnType<ReturnType<typeof syntaxTree>['resolveInner']>;

/** So many names at most are offered at once. */
const offersMax = 200;
/** A chain of names that ends at the cursor: `steps.trigger.event.bo`. */
const chain =
  /(?<![\w$.])(\$|steps|this|event)((?:\??\.[A-Za-z_$][\w$]*|\[(?:\d+|'[^']*'|"[^"]*")\])*)\??\.([\w$]*)$/;
const parts = /\??\.([A-Za-z_$][\w$]*)|\[(?:(\d+)|'([^']*)'|"([^"]*)")\]/g;

/** Offers what code of this kind can reach, beside what the language has. */
export function completeCode(contextOf: () => CodeContext) {
  return (at: CompletionContext): CompletionResult | null => {
    const { state, pos } = at;
    const line = state.doc.lineAt(pos);
    const before = line.text.slice(0, pos - line.from);
    const match = chain.exec(before);
    if (match !== null) {
      const [, root = '', path = '', typed = ''] = match;
      const found = belowOf(root, pathOf(path), state, contextOf());
      if (found === undefined) return null;
      return {
        from: pos - typed.length,
        options: found.slice(0, offersMax).map(completionOf),
        validFor: /^[\w$]*$/,
      };
    }
    return inProps(at) ?? ofModule(at, contextOf());
  };
}

/** What is known of a name under the pointer. */
export function hoverCode(contextOf: () => CodeContext): Extension {
  return hoverTooltip((view: EditorView, pos: number) => {
    const line = view.state.doc.lineAt(pos);
    const after = /^[\w$]*/.exec(line.text.slice(pos - line.from))?.[0] ?? '';
    const match = chain.exec(line.text.slice(0, pos - line.from) + after);
    if (match === null) return null;
    const [, root = '', path = '', name = ''] = match;
    const known = belowOf(root, pathOf(path), view.state, contextOf())?.find((one) => one.name === name);
    if (known === undefined || (known.info === undefined && known.detail === undefined)) return null;
    const end = pos + after.length;
    return {
      pos: end - name.length,
      end,
      create: () => {
        const dom = document.createElement('div');
        dom.className = 'known';
        const head = document.createElement('code');
        head.textContent = visible(`${root}${path}.#{name}${known.detail ?? ''}`);
        dom.append(head);
        if (known.info !== undefined) dom.append(`\n${visible(known.info)}`);
        return { dom };
      },
    };
  });
}

function pathOf(text: string): string[] {
  return [...text.matchAll(parts)].map(
    ([, name, index, single, double]) => name ?? index ?? single ?? double ?? '',
  );
}

function belowOf(
  root: string,
  path: readonly string[],
  state: EditorState,
  context: CodeContext,
): readonly Known[] | undefined {
  if (root === '$') return context.kind === 'step' ? follow(stepDollar, path) : undefined;
  if (root === 'this') {
    const own = propsOf(state).map(({ name, type }): Known => {
      const below = ofPropType[type];
      return {
        name,
        detail: `: ${type}`,
        info: 'A prop of this component.',
        ...(below === undefined ? {} : { below }),
      };
    });
    return follow(context.kind === 'source' ? [...own, emit] : own, path);
  }
  if (context.kind !== 'step') return undefined;
  const steps = knownSteps(context.steps);
  return root === 'event' ? undefined : knownIn(steps, path);
}

function follow(all: readonly Known[], path: readonly string[]): readonly Known[] | undefined {
  let here: readonly Known[] | undefined = all;
  for (const name of path) here = here?.find((one) => one.name === name)?.below;
  return here;
}

function completionOf({ name, detail, info }: Known): Completion {
  return {
    label: name,
    ...(detail === undefined ? {} : { detail: visible(detail) }),
    ...(info === undefined ? {} : { info: visible(info) }),
    ...(isName(name)
      ? {}
      : {
          apply: (view, _completion, from, to) => {
            const text = `[${JSON.stringify(name)}]`;
            // In place of the dot too.
            view.dispatch({
              changes: { from: from - 1, to, insert: text },
              selection: { anchor: from - 1 + text.length },
            });
          },
        }),
  };
}

/** Props that the component in this code declares, with their types. */
function propsOf(state: EditorState): { name: string; type: string }[] {
  const found: { name: string; type: string }[] = [];
  const text = (node: SyntaxNode) => state.sliceDoc(node.from, node.to);
  const props = firstProps(state);
  for (const property of props?.getChildren('Property') ?? []) {
    const key = property.getChild('PropertyDefinition') ?? property.getChild('String');
    if (key === null) continue;
    const value = property.lastChild;
    let type = 'app';
    if (value !== null && value.name === 'String') type = unquoted(text(value));
    if (value !== null && value.name === 'ObjectExpression') {
      for (const one of value.getChildren('Property')) {
        const [name, given] = [one.firstChild, one.lastChild];
        if (name !== null && given?.name === 'String' && text(name) === 'type') type = unquoted(text(given));
      }
    }
    found.push({ name: unquoted(text(key)), type });
  }
  return found;
}

/** The object of the first `props: { … }`. */
function firstProps(state: EditorState): SyntaxNode | undefined {
  let found: SyntaxNode | undefined;
  syntaxTree(state).iterate({
    enter: ({ node }) => {
      if (found !== undefined) return false;
      if (node.name !== 'Property' || node.lastChild?.name !== 'ObjectExpression') return true;
      const key = node.firstChild;
      if (key !== null && state.sliceDoc(key.from, key.to) === 'props') found = node.lastChild;
      return found === undefined;
    },
  });
  return found;
}

/** Inside `props: { … }`: types, and fields of definitions. */
function inProps({ state, pos, explicit }: CompletionContext): CompletionResult | null {
  const props = firstProps(state);
  if (props === undefined || pos <= props.from || pos > props.to) return null;
  const node = syntaxTree(state).resolveInner(pos, -1);
  if (node.name === 'String') {
    const property = node.parent;
    const key = property?.firstChild;
    const isType =
      property?.name === 'Property' &&
      key != null &&
      (state.sliceDoc(key.from, key.to) === 'type' || property.parent?.from === props.from);
    if (!isType) return null;
    return {
      from: node.from + 1,
      to: Math.max(pos, endOfString(state, node)),
      options: propTypes.map(completionOf),
    };
  }
  const typed = /[\w$]*$/.exec(state.sliceDoc(Math.max(0, pos - 100), pos))?.[0] ?? '';
  if (typed === '' && !explicit) return null;
  let object: SyntaxNode | null = node;
  while (object !== null && object.name !== 'ObjectExpression') object = object.parent;
  if (object === null || object.parent?.parent?.from !== props.from) return null;
  return {
    from: pos - typed.length,
    options: propFields.map((one) => ({ ...completionOf(one), apply: `${one.name}: ` })),
  };
}

/** Before the closing quote, where there is one. */
function endOfString(state: EditorState, node: SyntaxNode): number {
  const text = state.sliceDoc(node.from, node.to);
  return text.length > 1 && text.at(-1) === text[0] ? node.to - 1 : node.to;
}

const stepSnippet = snippetCompletion(
  'defineComponent({\n  props: {\n    #{name}: { type: "string" },\n  },\n  async run({ steps, $ }) {\n    #{}\n  },\n})',
  { label: 'defineComponent', detail: 'a step', type: 'function' },
);
const sourceSnippet = snippetCompletion(
  'defineComponent({\n  name: "#{name}",\n  version: "0.0.1",\n  type: "source",\n  props: {\n    timer: { type: "$.interface.timer", default: { intervalSeconds: 60 } },\n  },\n  async run(event) {\n    this.$emit(#{});\n  },\n})',
  { label: 'defineComponent', detail: 'a source', type: 'function' },
);

function ofModule({ state, pos }: CompletionContext, { kind }: CodeContext): CompletionResult | null {
  const typed = /(?<![\w$.])[A-Za-z][\w$]*$/.exec(state.sliceDoc(Math.max(0, pos - 100), pos))?.[0];
  if (typed === undefined || syntaxTree(state).resolveInner(pos, -1).name === 'String') return null;
  return {
    from: pos - typed.length,
    options: [kind === 'step' ? stepSnippet : sourceSnippet],
    validFor: /^[\w$]*$/,
  };
}

function unquoted(text: string): string {
  return text.replaceAll(/^['"`]|['"`]$/g, '');
}
