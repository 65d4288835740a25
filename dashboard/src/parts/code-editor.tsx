import { lazy, Suspense } from 'react';
import type { CodeContext } from '~/editing/code-context.ts';
import { Loading } from './page.tsx';
import { visible } from './plain-text.ts';

/** What the service says of a place in code; both count from 1. */
export interface CodeProblem {
  line: number;
  column: number;
  message: string;
}

export interface CodeEditorProps {
  /** What the code is of, for those who do not see it: "Code of the step pay". */
  label: string;
  value: string;
  /** Absent: it is to be read only. */
  onChange?: (code: string) => void;
  problems?: readonly CodeProblem[];
  /** What can be completed besides the language. */
  context?: CodeContext;
}

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
