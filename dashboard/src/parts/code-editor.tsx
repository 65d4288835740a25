import { lazy, Suspense } from 'react';
import type { CodeEditorProps } from './code-editor-props.ts';
import { Loading } from './page.tsx';
import { visible } from './plain-text.ts';

/** As large as all the rest of a page: loaded when it is wanted. Without it, the plain field of the browser has to do. */
const CodeMirror = lazy(() => import('./code-mirror.tsx').catch(() => ({ default: PlainEditor })));

/** Code with colours, completion and the problems at their lines. */
export function CodeEditor(props: CodeEditorProps) {
  const { problems = [], onChange } = props;
  return (
    <div className="code-editor">
      <Suspense fallback={<Loading what="Loading the editor" />}>
        <CodeMirror {...props} />
      </Suspense>
      {onChange !== undefined && (
        <p className="hint">
          Tab indents; <kbd>Esc</kbd> and then <kbd>Tab</kbd> leaves the editor. <kbd>Ctrl</kbd>{' '}
          <kbd>Space</kbd> completes.
        </p>
      )}
      {problems.map(({ line, column, message }) => (
        <p key={`${line} ${column} ${message}`} className="field-problem" role="alert">
          Line {line}, column {column}: {visible(message)}
        </p>
      ))}
    </div>
  );
}

function PlainEditor({ label, value, onChange }: CodeEditorProps) {
  return (
    <textarea
      className="input code"
      aria-label={label}
      rows={14}
      spellCheck={false}
      readOnly={onChange === undefined}
      value={value}
      onChange={(event) => onChange?.(event.target.value)}
    />
  );
}
