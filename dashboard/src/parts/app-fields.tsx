import { type AppSummary, MillraceError } from '#sdk';
import { MarkedWords } from './marked-text.tsx';
import { shortened, visible } from './plain-text.ts';

/** What `custom_fields_json` of an app is the JSON of. */
interface AppField {
  name: string;
  label: string;
  description?: string | null;
  default: string | null;
  optional?: boolean;
  secret?: boolean;
}

export function fieldsOf(app: Pick<AppSummary, 'custom_fields_json'>): AppField[] {
  return JSON.parse(app.custom_fields_json) as AppField[];
}

/** Several lines: an input of one line would join them. */
function isLong({ name, description }: AppField): boolean {
  return (
    /\bPEM\b/.test(description ?? '') ||
    /(private|ssh|rsa)_?key$|certificate|(^|_)(pem|ca|cert)$|service_account|json/i.test(name)
  );
}

/** The field that the service refused, and its message; undefined: the error is about something else. */
export function fieldProblem(error: unknown): { name: string; message: string } | undefined {
  if (!(error instanceof MillraceError)) return undefined;
  const name = /^(?:credentials|fields)\.(.+)$/.exec(String(error.details.parameter ?? ''))?.[1];
  return name === undefined ? undefined : { name, message: error.message };
}

/** The fields that a user fills in to connect an account of an app. */
export function AppFields({
  fields,
  values,
  onChange,
  error,
}: {
  fields: readonly AppField[];
  values: Readonly<Record<string, string>>;
  onChange: (values: Record<string, string>) => void;
  error: unknown;
}) {
  const problem = fieldProblem(error);
  return fields.map((field) => {
    const id = `field-${field.name}`;
    const isOptional = field.optional === true || field.default !== null;
    const isWrong = problem?.name === field.name;
    const common = {
      id,
      className: 'input',
      autoComplete: field.secret === true ? 'new-password' : 'off',
      spellCheck: false,
      required: !isOptional,
      'aria-invalid': isWrong || undefined,
      'aria-describedby': `${id}-hint${isWrong ? ` ${id}-problem` : ''}`,
      value: values[field.name] ?? '',
      onChange: (event: { target: { value: string } }) =>
        onChange({ ...values, [field.name]: event.target.value }),
    };
    return (
      <div className="field" key={field.name}>
        <label className="label" htmlFor={id}>
          <bdi>{visible(shortened(field.label, 100))}</bdi>
          {isOptional && <span className="muted"> (optional)</span>}
        </label>
        <p className="hint pre-line" id={`${id}-hint`}>
          <MarkedWords text={field.description ?? ''} max={500} />
        </p>
        {isLong(field) ? (
          <textarea rows={5} {...common} className="input code" />
        ) : (
          <input type={field.secret === true ? 'password' : 'text'} {...common} />
        )}
        {isWrong && (
          <p className="field-problem" id={`${id}-problem`} role="alert">
            {visible(problem.message)}
          </p>
        )}
      </div>
    );
  });
}
