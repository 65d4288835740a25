import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { javascript } from '@codemirror/lang-javascript';
import {
  bracketMatching,
  HighlightStyle,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from '@codemirror/language';
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint';
import { Annotation, Compartment, EditorState } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useRef } from 'react';
import { completeCode, hoverCode } from '~/editing/code-completion.ts';
import { nothingBefore } from '~/editing/code-context.ts';
import type { CodeProblem } from '~/editing/code-problem.ts';
import type { CodeEditorProps } from './code-editor-props.ts';

/** Colours are variables of theme.css, which reach into the shadow root: the theme of the page is that of the editor. */
const look = EditorView.theme({
  '&': {
    color: 'var(--text)',
    backgroundColor: 'var(--card)',
    border: '1px solid var(--line-strong)',
    borderRadius: '7px',
    fontSize: '0.85rem',
    maxHeight: '34rem',
  },
  '&.cm-focused': { outline: '2.5px solid var(--accent)', outlineOffset: '2px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5', overflow: 'auto' },
  '.cm-content, .cm-gutter': { minHeight: '8rem' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': {
    backgroundColor: 'var(--raised)',
    color: 'var(--muted)',
    border: '0',
    borderRadius: '7px 0 0 7px',
  },
  '.cm-activeLine': { backgroundColor: 'color-mix(in oklab, var(--raised), transparent 45%)' },
  '.cm-activeLineGutter': { backgroundColor: 'var(--raised)', color: 'var(--text)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'color-mix(in oklab, var(--accent), transparent 72%)',
  },
  '&.cm-focused .cm-matchingBracket': {
    backgroundColor: 'var(--accent-back)',
    outline: '1px solid var(--accent)',
  },
  '&.cm-focused .cm-nonmatchingBracket': { backgroundColor: 'var(--bad-back)' },
  '.cm-specialChar': { color: 'var(--bad)' },
  '.cm-tooltip': {
    color: 'var(--text)',
    backgroundColor: 'var(--card)',
    border: '1px solid var(--line-strong)',
    borderRadius: '7px',
    maxWidth: 'min(30rem, 90vw)',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    color: 'var(--accent)',
    backgroundColor: 'var(--accent-back)',
  },
  '.cm-completionDetail': { color: 'var(--muted)' },
  '.cm-tooltip-hover .known': { padding: '0.3rem 0.6rem', whiteSpace: 'pre-line' },
  '.cm-diagnostic': { fontFamily: 'inherit' },
});

const colours = HighlightStyle.define([
  {
    tag: [tags.keyword, tags.operatorKeyword, tags.modifier, tags.self],
    color: 'var(--accent)',
    fontWeight: '600',
  },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null, tags.escape], color: 'var(--warn)' },
  { tag: [tags.comment], color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.typeName, tags.className], color: 'var(--accent)' },
  { tag: [tags.invalid], color: 'var(--bad)' },
]);

/**
 * CodeMirror is in a shadow root: there it keeps its styles as constructed sheets, which the policy of the pages allows;
 * in the document itself it would make <style> elements, which it forbids.
 */
export default function CodeMirror(props: CodeEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const latest = useRef(props);
  latest.current = props;
  /** Told to the page, and not come back from it yet. */
  const told = useRef<string[]>([]);
  const { label, value, problems } = props;
  const readOnly = props.onChange === undefined;

  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' });
    const language = javascript({ typescript: true });
    const contextOf = () => latest.current.context ?? { kind: 'step' as const, steps: nothingBefore };
    const editor = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: latest.current.value,
        extensions: [
          lineNumbers(),
          highlightSpecialChars(),
          drawSelection(),
          language,
          syntaxHighlighting(colours),
          bracketMatching(),
          look,
          EditorState.tabSize.of(2),
          indentUnit.of('  '),
          editable.of([]),
          attributes.of([]),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged || update.transactions.some((one) => one.annotation(given) === true))
              return;
            const text = update.state.doc.toString();
            told.current.push(text);
            latest.current.onChange?.(text);
          }),
          language.language.data.of({ autocomplete: completeCode(contextOf) }),
          hoverCode(contextOf),
          lintGutter(),
          keymap.of([
            ...closeBracketsKeymap,
            ...completionKeymap,
            ...historyKeymap,
            ...lintKeymap,
            ...defaultKeymap,
          ]),
        ],
      }),
    });
    view.current = editor;
    return () => {
      view.current = null;
      editor.destroy();
    };
  }, []);

  useEffect(() => {
    view.current?.dispatch({
      effects: [
        attributes.reconfigure(
          EditorView.contentAttributes.of({
            'aria-label': readOnly ? label : `${label}. Escape, then Tab, leaves the editor.`,
            'aria-readonly': String(readOnly),
            spellcheck: 'false',
          }),
        ),
        editable.reconfigure(readOnly ? toRead : toWrite),
      ],
    });
  }, [label, readOnly]);

  useEffect(() => {
    const editor = view.current;
    if (editor === null) return;
    // What was typed before the page had answered must not be taken back.
    const at = told.current.indexOf(value);
    if (at !== -1) {
      told.current.splice(0, at + 1);
      return;
    }
    told.current.length = 0;
    const present = editor.state.doc.toString();
    if (present !== value)
      editor.dispatch({
        changes: { from: 0, to: present.length, insert: value },
        annotations: given.of(true),
      });
  }, [value]);

  useEffect(() => {
    const editor = view.current;
    if (editor === null) return;
    editor.dispatch(
      setDiagnostics(
        editor.state,
        (problems ?? []).map((one) => diagnosticOf(editor.state, one)),
      ),
    );
  }, [problems]);

  return <div ref={host} />;
}

/** The page set another text: the user did not type it. */
const given = Annotation.define<boolean>();
const editable = new Compartment();
const attributes = new Compartment();

/** It can still be reached and scrolled by keyboard, and read from. */
const toRead = [EditorState.readOnly.of(true), EditorView.editorAttributes.of({ class: 'read-only' })];
const toWrite = [
  history(),
  closeBrackets(),
  indentOnInput(),
  autocompletion({ icons: false }),
  highlightActiveLine(),
  highlightActiveLineGutter(),
  keymap.of([indentWithTab]),
];

function diagnosticOf(state: EditorState, { line, column, message }: CodeProblem): Diagnostic {
  const at = state.doc.line(Math.max(1, Math.min(line, state.doc.lines)));
  const from = Math.min(at.to, at.from + Math.max(0, column - 1));
  const word = state.wordAt(from);
  return { from, to: Math.max(from, word?.to ?? Math.min(from + 1, at.to)), severity: 'error', message };
}
